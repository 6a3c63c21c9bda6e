#include "lockstep/base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <system_error>
#include <utility>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/path.h"
#include "lockstep/base/quote.h"

namespace lockstep {
namespace {

using internal::Descriptor;

constexpr size_t kChunkBytes = size_t{1} << 20;
constexpr int kTemporaryNames = 100;

StatusCode CodeOf(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return StatusCode::kNotFound;
    case EACCES:
    case EPERM:
    case EROFS:
      return StatusCode::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return StatusCode::kResourceExhausted;
    case EEXIST:
      return StatusCode::kAlreadyExists;
    case ENAMETOOLONG:
    case ELOOP:
    case EISDIR:
    case EINVAL:
      return StatusCode::kInvalidArgument;
    default:
      return StatusCode::kUnavailable;
  }
}

// Appends the rest of the file to `content`, which may grow up to max_bytes.
Status ReadAll(int fd, const std::string& path, uint64_t max_bytes, std::string& content) {
  size_t used = 0;
  while (true) {
    if (used == content.size()) {
      content.resize(used + kChunkBytes);
    }
    const ssize_t count = ::read(fd, content.data() + used, content.size() - used);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      return ErrnoStatus(errno, path, fmt::format("read at offset {}", used));
    }
    if (count == 0) {
      content.resize(used);
      return OkStatus();
    }
    used += static_cast<size_t>(count);
    if (used > max_bytes) {
      return OutOfRange(fmt::format("{}: grew beyond the limit of {} bytes while being read",
                                    Shown(path), max_bytes));
    }
  }
}

// Writes, synchronises and closes; the file exists under its temporary name afterwards. Errors name
// `path`, which the user knows.
Status FillTemporary(Descriptor& fd, const std::string& path, std::string_view content) {
  LS_TRY(internal::WriteAll(fd.get(), path, 0, content.data(), content.size()));
  if (::fsync(fd.get()) != 0) {
    return ErrnoStatus(errno, path, "synchronise");
  }
  if (fd.Close() != 0) {
    return ErrnoStatus(errno, path, "close");
  }
  return OkStatus();
}

}  // namespace

Status SyncFolder(const std::string& folder) {
  const Descriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) {
    return ErrnoStatus(errno, folder, "open the folder");
  }
  // Some file systems have no fsync for folders and say EINVAL.
  if (::fsync(fd.get()) != 0 && errno != EINVAL) {
    return ErrnoStatus(errno, folder, "synchronise the folder");
  }
  return OkStatus();
}

Status ErrnoStatus(int error, std::string_view path, std::string_view action) {
  return {CodeOf(error), fmt::format("{}: cannot {}: {}", Shown(path), action,
                                     std::generic_category().message(error))};
}

Result<std::string> ReadFile(const std::string& path, uint64_t max_bytes) {
  LS_ASSIGN_OR_RETURN(const internal::OpenedFile file, internal::OpenRegular(path));
  const uint64_t size = file.size;
  if (size > max_bytes) {
    return OutOfRange(
        fmt::format("{}: {} bytes, at most {} are allowed", Shown(path), size, max_bytes));
  }
  try {
    // One byte more than the size, so that the read that finds the end needs no growth.
    std::string content(static_cast<size_t>(size) + 1, '\0');
    LS_TRY(ReadAll(file.fd.get(), path, max_bytes, content));
    return content;
  } catch (const std::bad_alloc&) {
    return ResourceExhausted(fmt::format("{}: no memory for {} bytes", Shown(path), size));
  }
}

Status WriteFileAtomic(const std::string& path, std::string_view content) {
  LS_TRY(internal::CheckPath(path));
  LS_ASSIGN_OR_RETURN(const std::string target, ResolveTarget(path));
  std::string temporary;
  int opened = -1;
  for (int i = 0; i < kTemporaryNames && opened < 0; ++i) {
    temporary = fmt::format("{}.tmp-{}-{}", target, ::getpid(), i);
    opened = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (opened < 0 && errno != EEXIST) {
      return ErrnoStatus(errno, path, "create a temporary file beside it");
    }
  }
  if (opened < 0) {
    return AlreadyExists(fmt::format("{}: too many temporary files beside it, such as {}",
                                     Shown(path), Shown(temporary)));
  }
  Descriptor fd(opened);
  Status status = FillTemporary(fd, path, content);
  if (status.ok() && ::rename(temporary.c_str(), target.c_str()) != 0) {
    status = ErrnoStatus(errno, path, "replace");
  }
  if (!status.ok()) {
    ::unlink(temporary.c_str());
    return status;
  }
  return SyncFolder(FolderOf(target));
}

}  // namespace lockstep
