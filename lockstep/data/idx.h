// The IDX format of the MNIST files: two zero bytes, a type code, the number of dimensions, the
// dimensions as big-endian 32-bit numbers, and the elements in row-major order, big-endian. Source:
// the format description beside the MNIST database by LeCun, Cortes and Burges.
//
// Files are untrusted: everything is checked against the file's length before memory is taken for
// it. Errors are DATA_LOSS and name the file, the offset, what was found and what is allowed.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lockstep/data/dataset.h"

namespace lockstep::data {

// What a file must hold, if it is of unsigned bytes: {3, "images"}.
struct IdxKind {
  int rank = 0;
  std::string_view what;
};

// Reads a plain or gzip-compressed IDX file (told apart by content, not by name). Element types:
// unsigned byte becomes uint8; signed byte, short and int become int32; float and double stay. Of a
// compressed file no more is unpacked than its header promises. A file of another kind than `kind`
// is an error before anything else is looked at.
Result<Tensor> ReadIdx(const std::string& path, const StopCheck& should_stop = {},
                       const std::optional<IdxKind>& kind = {});

// The same for the uncompressed content of a file, which errors call `name`.
Result<Tensor> ParseIdx(std::string_view content, std::string_view name,
                        const std::optional<IdxKind>& kind = {});

struct IdxHeader {
  DType dtype = DType::kUInt8;
  Shape shape;
};

// What ReadIdx would return, from the beginning of the file alone. Whether the file holds what it
// promises is not checked.
Result<IdxHeader> ReadIdxHeader(const std::string& path, const std::optional<IdxKind>& kind = {});

}  // namespace lockstep::data
