// Buffer: one aligned block of memory, shared by the tensors that view it. Allocation failure is an
// error, not an exception. Contents are uninitialised.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "lockstep/base/result.h"

namespace lockstep {

class Buffer {
 public:
  static constexpr size_t kAlignment = 64;

  static Result<std::shared_ptr<Buffer>> Allocate(size_t bytes);

  // Memory that `owner` keeps, such as a mapped region; `data` is aligned to kAlignment.
  static std::shared_ptr<Buffer> Wrap(void* data, size_t bytes, std::shared_ptr<void> owner);

  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  void* data() const { return data_; }

  size_t size() const { return size_; }

 private:
  static std::shared_ptr<Buffer> Make(void* data, size_t bytes, std::shared_ptr<void> owner);

  Buffer(void* data, size_t size, std::shared_ptr<void> owner)
      : data_(data), size_(size), owner_(std::move(owner)) {}

  void* data_;
  size_t size_;
  // Null for memory of its own.
  std::shared_ptr<void> owner_;
};

}  // namespace lockstep
