// The public safetensors format (https://huggingface.co/docs/safetensors): 8 bytes of little-endian
// header length, a JSON object "name" -> {dtype, shape, data_offsets}, with optional texts under
// "__metadata__", then the row-major little-endian elements without gaps.
//
// Readers take files as hostile: lengths, offsets and names are checked before they are used.
// Damage is DATA_LOSS, an element type of the format that Lockstep lacks is UNIMPLEMENTED; both
// name the file and the offset or tensor. Writing is deterministic: equal input gives equal bytes.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/file_stream.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::train {

struct NamedTensor {
  std::string name;
  Tensor value;
};

using SafetensorsMetadata = std::map<std::string, std::string>;

struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  // Bytes [begin, end) of the file.
  uint64_t begin = 0;
  uint64_t end = 0;
};

struct SafetensorsHeader {
  // In order of position. They cover the file from data_begin to its end exactly.
  std::vector<SafetensorsEntry> entries;
  SafetensorsMetadata metadata;
  uint64_t data_begin = 0;
};

// What a whole file was.
struct FileDigest {
  uint64_t bytes = 0;
  // Hexadecimal.
  std::string sha256;
};

// Writes and synchronises a new file; one that exists is ALREADY_EXISTS. Names must be unique,
// UTF-8, and not "__metadata__". The header names tensors in order; data lies in order of element
// size, the largest first, then of name, so that each element is aligned, from an offset that is a
// multiple of 64. After an error there is no file.
Result<FileDigest> WriteSafetensors(const std::string& path, std::span<const NamedTensor> tensors,
                                    const SafetensorsMetadata& metadata);

// Parses the first bytes of a file of `file_size` bytes, up to the end of the header (`text`
// includes the length). `path` is for messages.
Result<SafetensorsHeader> ParseSafetensorsHeader(std::string_view text, uint64_t file_size,
                                                 const std::string& path);

Result<SafetensorsHeader> ReadSafetensorsHeader(const InputFile& file);

Result<Tensor> ReadSafetensorsTensor(const InputFile& file, const SafetensorsEntry& entry);

struct SafetensorsContent {
  // In order of position.
  std::vector<NamedTensor> tensors;
  SafetensorsMetadata metadata;
  // Of the very bytes that were read.
  FileDigest digest;
};

// The whole file in one pass.
Result<SafetensorsContent> ReadSafetensors(const InputFile& file);

}  // namespace lockstep::train
