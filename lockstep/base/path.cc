#include "lockstep/base/path.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <system_error>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/file.h"
#include "lockstep/base/quote.h"

namespace lockstep {
namespace {

// What is wrong with a path that lstat finds and stat does not, for this reason.
Status BrokenLink(int error, const std::string& path) {
  std::string target(PATH_MAX, '\0');
  const ssize_t size = ::readlink(path.c_str(), target.data(), target.size());
  if (error != ENOENT || size < 0) {
    return ErrnoStatus(error, path, "follow the link");
  }
  target.resize(static_cast<size_t>(size));
  return NotFound(
      fmt::format("{}: is a link to {}, which is not there", Shown(path), Quoted(target)));
}

std::string NameOf(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) {
    return ".";
  }
  return slash == 0 ? "/" : path.substr(0, slash);
}

bool SameFile(const std::string& a, const std::string& b) {
  struct stat first = {};
  struct stat second = {};
  const bool a_is_there = ::stat(a.c_str(), &first) == 0;
  const bool b_is_there = ::stat(b.c_str(), &second) == 0;
  if (a_is_there != b_is_there) {
    return false;
  }
  if (a_is_there) {
    return first.st_dev == second.st_dev && first.st_ino == second.st_ino;
  }
  const std::string a_folder = FolderOf(a);
  const std::string b_folder = FolderOf(b);
  if (NameOf(a) != NameOf(b)) {
    return false;
  }
  // The text of a path gets shorter until something is there.
  return a_folder == b_folder || (a_folder != a && b_folder != b && SameFile(a_folder, b_folder));
}

Result<std::string> ResolveTarget(const std::string& path) {
  struct stat info = {};
  if (::lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) {
      return path;
    }
    return ErrnoStatus(errno, path, "write");
  }
  const bool is_link = S_ISLNK(info.st_mode);
  if (is_link && ::stat(path.c_str(), &info) != 0) {
    return BrokenLink(errno, path);
  }
  // Before its name is looked for: what /dev/stdout leads to has none.
  if (!S_ISREG(info.st_mode)) {
    return internal::NotRegular(path, info.st_mode);
  }
  if (!is_link) {
    return path;
  }
  const std::unique_ptr<char, decltype(&std::free)> resolved(::realpath(path.c_str(), nullptr),
                                                             &std::free);
  if (resolved == nullptr) {
    return ErrnoStatus(errno, path, "follow the link");
  }
  return std::string(resolved.get());
}

Status CheckFolder(const std::string& path) {
  struct stat info = {};
  if (::lstat(path.c_str(), &info) != 0) {
    return ErrnoStatus(errno, path, "find the folder");
  }
  if (::stat(path.c_str(), &info) != 0) {
    return BrokenLink(errno, path);
  }
  if (!S_ISDIR(info.st_mode)) {
    return InvalidArgument(
        fmt::format("{}: {}, expected a folder", Shown(path),
                    S_ISREG(info.st_mode) ? "is a file" : "is a pipe, socket or device"));
  }
  return OkStatus();
}

}  // namespace lockstep
