#include "lockstep/cli/outputs.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/file.h"
#include "lockstep/base/quote.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

std::string FolderOf(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  return folder.empty() ? "." : folder.string();
}

// Whether files can be made in `folder`, for the sake of `path`.
Status CheckWritableFolder(const std::string& folder, const std::string& path) {
  struct stat info = {};
  if (::stat(folder.c_str(), &info) != 0) {
    return ErrnoStatus(errno, path, fmt::format("write into the folder {}", Quoted(folder)));
  }
  if (!S_ISDIR(info.st_mode)) {
    return InvalidArgument(
        fmt::format("{}: cannot write: {} is not a folder", Shown(path), Quoted(folder)));
  }
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    return ErrnoStatus(errno, path, fmt::format("write into the folder {}", Quoted(folder)));
  }
  return OkStatus();
}

}  // namespace

Status CheckOutputFile(const std::string& path) {
  LS_TRY(internal::CheckPath(path));
  LS_ASSIGN_OR_RETURN(const std::string target, internal::ResolveTarget(path));
  return CheckWritableFolder(FolderOf(target), path);
}

Status CheckOutputFolder(const std::string& path) {
  LS_TRY(internal::CheckPath(path));
  // The part of it that exists, as a link or as a folder.
  fs::path existing = path;
  struct stat info = {};
  while (::lstat(existing.c_str(), &info) != 0) {
    if (errno != ENOENT && errno != ENOTDIR) {
      return ErrnoStatus(errno, path, "make the folder");
    }
    if (!existing.has_parent_path() || existing == existing.parent_path()) {
      existing = ".";
      break;
    }
    existing = existing.parent_path();
  }
  return CheckWritableFolder(existing.string(), path);
}

}  // namespace lockstep::cli
