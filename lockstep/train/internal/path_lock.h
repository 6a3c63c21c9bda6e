// Locks on what a run writes, so that nobody else writes it meanwhile: in this process or another.
// A lock is the system's (flock) and ends with the process, however that ends. A file system
// without locks is used without. ABORTED while somebody else has the lock, naming the process where
// that is known.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/result.h"

namespace lockstep::train::internal {

class PathLock {
 public:
  // On a folder of checkpoints, which is there.
  static Result<PathLock> OnFolder(const std::string& dir);

  // On a file in a folder that is there. The file itself may be replaced meanwhile, so the lock is
  // on ".NAME.lock" beside it, which goes with the lock. A killed process leaves it, to no harm.
  static Result<PathLock> OnFile(const std::string& path);

  PathLock(PathLock&& other) noexcept
      : fd_(std::move(other.fd_)), made_(std::exchange(other.made_, {})) {}

  PathLock& operator=(PathLock&&) = delete;
  ~PathLock();

  // FAILED_PRECONDITION if `dir` is no longer the folder that was locked.
  Status CheckStillAt(const std::string& dir) const;

 private:
  PathLock(lockstep::internal::Descriptor fd, std::string made)
      : fd_(std::move(fd)), made_(std::move(made)) {}

  bool IsAt(const std::string& path) const;

  lockstep::internal::Descriptor fd_;
  // The file to remove; empty where the lock made none.
  std::string made_;
};

}  // namespace lockstep::train::internal
