#include "lockstep/tensor/buffer.h"

#include <fmt/format.h>

#include <cstdlib>
#include <limits>

namespace lockstep {

Result<std::shared_ptr<Buffer>> Buffer::Allocate(size_t bytes) {
  // At least one line, so that the data pointer of an empty tensor is valid as well.
  const size_t rounded = bytes > std::numeric_limits<size_t>::max() - kAlignment
                             ? bytes
                             : (bytes / kAlignment + 1) * kAlignment;
  void* data = std::aligned_alloc(kAlignment, rounded);
  if (data == nullptr) {
    return ResourceExhausted(fmt::format("cannot allocate {} bytes of memory", bytes));
  }

  struct Access : Buffer {
    Access(void* block, size_t size) : Buffer(block, size) {}
  };

  return std::shared_ptr<Buffer>(std::make_shared<Access>(data, bytes));
}

Buffer::~Buffer() {
  std::free(data_);
}

}  // namespace lockstep
