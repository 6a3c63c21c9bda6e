#include "lockstep/base/descriptor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "lockstep/base/file.h"
#include "lockstep/base/quote.h"

namespace lockstep::internal {

Descriptor::~Descriptor() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

int Descriptor::Close() {
  return ::close(std::exchange(fd_, -1));
}

Status CheckPath(const std::string& path) {
  if (path.empty()) {
    return InvalidArgument("empty file name");
  }
  if (path.find('\0') != std::string::npos) {
    return InvalidArgument(fmt::format("{}: file name with a zero byte", Shown(path)));
  }
  return OkStatus();
}

Status NotRegular(const std::string& path, unsigned int mode) {
  return InvalidArgument(
      fmt::format("{}: {}, expected a regular file", Shown(path),
                  S_ISDIR(mode) ? "is a directory" : "is a pipe, socket or device"));
}

Result<OpenedFile> OpenRegular(const std::string& path) {
  LS_TRY(CheckPath(path));
  // Without O_NONBLOCK the open itself would wait for the writer of a pipe.
  Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) {
    return ErrnoStatus(errno, path, "open");
  }
  struct stat info = {};
  if (::fstat(fd.get(), &info) != 0) {
    return ErrnoStatus(errno, path, "inspect");
  }
  if (!S_ISREG(info.st_mode)) {
    return NotRegular(path, info.st_mode);
  }
  return OpenedFile{std::move(fd), static_cast<uint64_t>(info.st_size)};
}

Status WriteAll(int fd, const std::string& path, uint64_t offset, const void* data, size_t size) {
  const char* bytes = static_cast<const char*>(data);
  size_t written = 0;
  while (written < size) {
    const ssize_t count = ::write(fd, bytes + written, size - written);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      return ErrnoStatus(errno, path, fmt::format("write at offset {}", offset + written));
    }
    written += static_cast<size_t>(count);
  }
  return OkStatus();
}

}  // namespace lockstep::internal
