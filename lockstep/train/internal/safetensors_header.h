// The JSON header of a safetensors file: names, element types, shapes, offsets.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/train/safetensors.h"

namespace lockstep::train::internal {

inline constexpr std::string_view kMetadataKey = "__metadata__";

// "F32" and so on.
std::string_view SafetensorsTypeName(DType dtype);

// Fills `header` from the JSON text, which lies at `offset` of the file. Checks all but how the
// entries lie to each other and in the file: syntax, depth, duplicate names and fields, types,
// and that offsets, shape and element type agree. header.data_begin must be set. Entries come in
// the order of the text.
Status ParseHeaderJson(std::string_view json, uint64_t offset, const std::string& path,
                       SafetensorsHeader& header);

}  // namespace lockstep::train::internal
