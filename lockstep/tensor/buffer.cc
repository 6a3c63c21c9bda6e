#include "lockstep/tensor/buffer.h"

#include <fmt/format.h>

#include <cstdint>
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

  return Make(data, bytes, nullptr);
}

std::shared_ptr<Buffer> Buffer::Wrap(void* data, size_t bytes, std::shared_ptr<void> owner) {
  LS_CHECK(owner != nullptr && reinterpret_cast<uintptr_t>(data) % kAlignment == 0);
  return Make(data, bytes, std::move(owner));
}

std::shared_ptr<Buffer> Buffer::Make(void* data, size_t bytes, std::shared_ptr<void> owner) {
  struct Access : Buffer {
    Access(void* block, size_t size, std::shared_ptr<void> owner)
        : Buffer(block, size, std::move(owner)) {}
  };

  return std::make_shared<Access>(data, bytes, std::move(owner));
}

Buffer::~Buffer() {
  if (owner_ == nullptr) {
    std::free(data_);
  }
}

}  // namespace lockstep
