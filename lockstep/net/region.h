// Region: memory that other tasks of the same host can map and read or write directly, without
// messages. Its owner sends (number) to them in a message; they map it with Transport::MapRegion.
// Contents begin as zeros. What orders the accesses of several tasks is up to them: atomics in the
// region, or messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/result.h"

namespace lockstep::net {

class Region {
  struct Private {};

 public:
  // Anonymous shared memory with a descriptor that can be passed on.
  static Result<std::shared_ptr<Region>> Create(uint64_t number, size_t bytes);
  // Maps what `fd` refers to; `fd` stays the caller's.
  static Result<std::shared_ptr<Region>> Map(int fd, uint64_t number, size_t bytes);

  // For Create and Map only.
  Region(Private, uint64_t number, lockstep::internal::Descriptor fd, void* data, size_t bytes)
      : number_(number), fd_(std::move(fd)), data_(data), bytes_(bytes) {}

  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  ~Region();

  void* data() const { return data_; }

  size_t bytes() const { return bytes_; }

  // Names the region among those of its owner.
  uint64_t number() const { return number_; }

  // -1 in a region that was mapped.
  int fd() const { return fd_.get(); }

 private:
  uint64_t number_;
  lockstep::internal::Descriptor fd_;
  void* data_;
  size_t bytes_;
};

}  // namespace lockstep::net
