#include "lockstep/net/region.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

namespace lockstep::net {
namespace {

// A mapping must never shrink under its readers.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Status SystemError(const char* what, size_t bytes) {
  const int error = errno;
  const std::string message =
      fmt::format("{} of {} bytes of shared memory: {}", what, bytes, std::strerror(error));
  return error == ENOMEM || error == ENOSPC || error == EMFILE || error == ENFILE
             ? ResourceExhausted(message)
             : Internal(message);
}

Result<void*> MapBytes(int fd, size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) {
    return SystemError("mapping", bytes);
  }
  return data;
}

Status CheckSize(size_t bytes) {
  if (bytes == 0 || bytes > static_cast<size_t>(std::numeric_limits<off_t>::max())) {
    return InvalidArgument(fmt::format("a region of {} bytes", bytes));
  }
  return OkStatus();
}

}  // namespace

Result<std::shared_ptr<Region>> Region::Create(uint64_t number, size_t bytes) {
  LS_TRY(CheckSize(bytes));
  lockstep::internal::Descriptor fd(
      memfd_create("lockstep-region", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (fd.get() < 0 || ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0 ||
      fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) {
    return SystemError("creating", bytes);
  }
  LS_ASSIGN_OR_RETURN(void* data, MapBytes(fd.get(), bytes));
  return std::make_shared<Region>(Private(), number, std::move(fd), data, bytes);
}

Result<std::shared_ptr<Region>> Region::Map(int fd, uint64_t number, size_t bytes) {
  LS_TRY(CheckSize(bytes));

  struct stat info {};

  const int seals = fcntl(fd, F_GET_SEALS);
  if (fstat(fd, &info) != 0 || static_cast<uint64_t>(info.st_size) != bytes ||
      (seals & F_SEAL_SHRINK) == 0) {
    return InvalidArgument(
        fmt::format("what a peer offers as shared memory of {} bytes has {} bytes and {}", bytes,
                    info.st_size, (seals & F_SEAL_SHRINK) == 0 ? "may shrink" : "may not shrink"));
  }
  LS_ASSIGN_OR_RETURN(void* data, MapBytes(fd, bytes));
  return std::make_shared<Region>(Private(), number, lockstep::internal::Descriptor(-1), data,
                                  bytes);
}

Region::~Region() {
  munmap(data_, bytes_);
}

}  // namespace lockstep::net
