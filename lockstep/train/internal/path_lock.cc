#include "lockstep/train/internal/path_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <optional>
#include <sstream>

#include "lockstep/base/file.h"
#include "lockstep/base/path.h"
#include "lockstep/base/quote.h"

namespace lockstep::train::internal {
namespace {

using lockstep::internal::Descriptor;

// The process that holds the lock, as far as the system tells: "123".
std::optional<std::string> LockHolder(int fd) {
  struct stat info = {};
  std::ifstream locks("/proc/locks");
  if (::fstat(fd, &info) != 0) {
    return std::nullopt;
  }
  const std::string file =
      fmt::format("{:02x}:{:02x}:{}", major(info.st_dev), minor(info.st_dev), info.st_ino);
  // "1: FLOCK  ADVISORY  WRITE 123 08:01:456 0 EOF"
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    std::string number, kind, strictness, mode, process, place;
    words >> number >> kind >> strictness >> mode >> process >> place;
    if (kind == "FLOCK" && mode == "WRITE" && place == file && process != "0") {
      return process;
    }
  }
  return std::nullopt;
}

// Locks what is open for the sake of `path`, to whose `kind` a run writes its `content`.
Status Lock(int fd, const std::string& path, std::string_view content, std::string_view kind) {
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) {
    return OkStatus();
  }
  const std::optional<std::string> process = LockHolder(fd);
  return Aborted(
      fmt::format("{}: another run{} writes its {} to this {}: give this run a {} of its own, or "
                  "wait for the end of the other",
                  Shown(path), process.has_value() ? fmt::format(", process {},", *process) : "",
                  content, kind, kind));
}

}  // namespace

Result<PathLock> PathLock::OnFolder(const std::string& dir) {
  Descriptor fd(::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) {
    return ErrnoStatus(errno, dir, "open the folder");
  }
  LS_TRY(Lock(fd.get(), dir, "checkpoints", "folder"));
  PathLock lock(std::move(fd), "");
  // The holder before may have removed it.
  LS_TRY(lock.CheckStillAt(dir));
  return lock;
}

Result<PathLock> PathLock::OnFile(const std::string& path) {
  constexpr int kTries = 100;
  const std::string name =
      fmt::format("{}/.{}.lock", FolderOf(path), path.substr(path.rfind('/') + 1));
  for (int i = 0; i < kTries; ++i) {
    // Without O_NONBLOCK the open itself would wait for the writer of a pipe.
    Descriptor fd(
        ::open(name.c_str(), O_RDONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666));
    if (fd.get() < 0) {
      return ErrnoStatus(errno, path, fmt::format("make the lock {} beside it", Quoted(name)));
    }
    LS_TRY(Lock(fd.get(), path, "summary", "file"));
    PathLock lock(std::move(fd), "");
    // The holder before may have removed it in between.
    if (lock.IsAt(name)) {
      lock.made_ = name;
      return lock;
    }
  }
  return Aborted(fmt::format("{}: the lock {} beside it is removed again and again", Shown(path),
                             Quoted(name)));
}

PathLock::~PathLock() {
  if (!made_.empty() && IsAt(made_)) {
    ::unlink(made_.c_str());
  }
}

bool PathLock::IsAt(const std::string& path) const {
  struct stat locked = {};
  struct stat found = {};
  return ::fstat(fd_.get(), &locked) == 0 && ::stat(path.c_str(), &found) == 0 &&
         found.st_dev == locked.st_dev && found.st_ino == locked.st_ino;
}

Status PathLock::CheckStillAt(const std::string& dir) const {
  if (!IsAt(dir)) {
    return FailedPrecondition(fmt::format(
        "{}: the folder of this run's checkpoints was moved or removed meanwhile", Shown(dir)));
  }
  return OkStatus();
}

}  // namespace lockstep::train::internal
