// Buffer: one aligned block of memory, shared by the tensors that view it. Allocation failure is an
// error, not an exception. Contents are uninitialised.
#pragma once

#include <cstddef>
#include <memory>

#include "lockstep/base/result.h"

namespace lockstep {

class Buffer {
 public:
  static constexpr size_t kAlignment = 64;

  static Result<std::shared_ptr<Buffer>> Allocate(size_t bytes);

  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  void* data() const { return data_; }

  size_t size() const { return size_; }

 private:
  Buffer(void* data, size_t size) : data_(data), size_(size) {}

  void* data_;
  size_t size_;
};

}  // namespace lockstep
