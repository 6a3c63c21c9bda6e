// File descriptors and what the file functions share. Errors as in file.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "lockstep/base/result.h"

namespace lockstep::internal {

// Owns a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}

  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }

  ~Descriptor();

  // -1 after Close and in what was moved from.
  int get() const { return fd_; }

  // The result of close(2), which may report a late write error.
  int Close();

 private:
  int fd_;
};

// Refuses an empty name and one with a zero byte, which would silently mean the part before it.
Status CheckPath(const std::string& path);

// What is said of a path that is no regular file but of this mode.
Status NotRegular(const std::string& path, unsigned int mode);

struct OpenedFile {
  Descriptor fd;
  uint64_t size;
};

// A regular file, for reading.
Result<OpenedFile> OpenRegular(const std::string& path);

// Writes all at the position of `fd`; `offset` is that position, for messages.
Status WriteAll(int fd, const std::string& path, uint64_t offset, const void* data, size_t size);

}  // namespace lockstep::internal
