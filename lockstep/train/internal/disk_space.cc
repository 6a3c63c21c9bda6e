#include "lockstep/train/internal/disk_space.h"

#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "lockstep/base/quote.h"

namespace lockstep::train::internal {

Status CheckDiskSpace(const std::string& folder, std::string_view what, uint64_t bytes) {
  struct statvfs disk = {};
  // Some file systems, not of disks, say that they have no blocks at all.
  if (::statvfs(folder.c_str(), &disk) != 0 || disk.f_blocks == 0) {
    return OkStatus();
  }
  const uint64_t blocks = ::geteuid() == 0 ? disk.f_bfree : disk.f_bavail;
  const uint64_t free_bytes = blocks * disk.f_frsize;
  if (free_bytes < bytes) {
    return ResourceExhausted(fmt::format("{}: {} takes {} bytes, the disk has {} left",
                                         Shown(folder), what, bytes, free_bytes));
  }
  return OkStatus();
}

}  // namespace lockstep::train::internal
