// The outermost level of a protobuf message, without building it: positions for messages, and
// counts that can be checked before anything is allocated for what they count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "lockstep/base/status.h"

namespace lockstep::internal {

struct WireField {
  uint32_t number = 0;
  // Length-delimited, with its content in `bytes`; otherwise a number in `value`.
  bool delimited = false;
  uint64_t value = 0;
  std::string_view bytes;
  // Of its tag, from the start of the message.
  size_t offset = 0;
};

// Calls `visit` for each field in order and stops at its first error. A malformed message, or one
// of 2 GiB or more, is INVALID_ARGUMENT; `base` is added to the position that the error names.
// Groups, which the format does not use, count as malformed.
Status ForEachWireField(std::string_view message, size_t base,
                        const std::function<Status(const WireField&)>& visit);

}  // namespace lockstep::internal
