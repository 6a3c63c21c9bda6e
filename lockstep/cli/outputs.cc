#include "lockstep/cli/outputs.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "lockstep/base/file.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

Status CheckWritableFolder(const fs::path& folder, const std::string& path) {
  std::error_code error;
  const fs::file_status found = fs::status(folder, error);
  if (!fs::exists(found)) {
    return ErrnoStatus(ENOENT, path, "write here");
  }
  if (!fs::is_directory(found)) {
    return ErrnoStatus(ENOTDIR, path, "write here");
  }
  return access(folder.c_str(), W_OK | X_OK) == 0 ? OkStatus()
                                                  : ErrnoStatus(errno, path, "write here");
}

}  // namespace

Status CheckOutputFile(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    return ErrnoStatus(EISDIR, path, "write here");
  }
  const fs::path folder = fs::path(path).parent_path();
  return CheckWritableFolder(folder.empty() ? fs::path(".") : folder, path);
}

Status CheckOutputFolder(const std::string& path) {
  fs::path existing = path;
  std::error_code error;
  while (!existing.empty() && !fs::exists(existing, error) && existing != existing.parent_path()) {
    existing = existing.parent_path();
  }
  return CheckWritableFolder(existing.empty() ? fs::path(".") : existing, path);
}

}  // namespace lockstep::cli
