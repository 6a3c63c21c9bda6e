#include "lockstep/cli/outputs.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/file.h"
#include "lockstep/base/path.h"
#include "lockstep/base/quote.h"
#include "lockstep/data/idx_folder.h"
#include "lockstep/train/checkpoint.h"

namespace lockstep::cli {
namespace {

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

// Whether this is where standard output or standard error goes. It would be replaced behind their
// back.
bool IsStandardStream(const std::string& target) {
  struct stat file = {};
  if (::stat(target.c_str(), &file) != 0) {
    return false;
  }
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat info = {};
    if (::fstat(stream, &info) == 0 && info.st_dev == file.st_dev && info.st_ino == file.st_ino) {
      return true;
    }
  }
  return false;
}

// What else the run uses the file for; empty if nothing.
std::string OtherUse(const std::string& target, const RunFiles& files) {
  if (SameFile(target, files.config_path)) {
    return "is the configuration of this run";
  }
  if (files.config.data.source == "mnist" || files.config.data.source == "idx") {
    for (const std::string& data : data::IdxFolderFiles(files.config.data.path)) {
      if (SameFile(target, data)) {
        return "is, or would be, a data file of this run";
      }
    }
  }
  if (train::IsCheckpointFile(target, files.checkpoints)) {
    return "is, or would be, a file of a checkpoint";
  }
  if (!files.checkpoints.empty() && SameFile(target, files.checkpoints)) {
    return "is the folder of checkpoints of this run";
  }
  return IsStandardStream(target) ? "is where this program's messages go" : "";
}

Status CheckPathOfSummary(const std::string& path, const RunFiles& files) {
  LS_TRY(internal::CheckPath(path));
  LS_ASSIGN_OR_RETURN(const std::string target, ResolveTarget(path));
  const std::string use = OtherUse(target, files);
  if (!use.empty()) {
    return InvalidArgument(
        fmt::format("{}: {}; a summary needs a file of its own", Shown(path), use));
  }
  return CheckWritableFolder(FolderOf(target), path);
}

}  // namespace

Outcome OpenSummary(const std::string& path, const RunFiles& files,
                    std::unique_ptr<train::SummaryFile>& summary) {
  if (path.empty()) {
    return Done();
  }
  Status status = CheckPathOfSummary(path, files);
  if (status.ok()) {
    Result<std::unique_ptr<train::SummaryFile>> opened = train::SummaryFile::Open(path);
    status = opened.status();
    if (opened.ok()) {
      summary = std::move(opened).value();
    }
  }
  return status.ok() ? Done() : Fail(CodeOfPath(status), status.With("--summary"));
}

ExitCode CodeOfPath(const Status& status) {
  switch (status.code()) {
    case StatusCode::kResourceExhausted:
    case StatusCode::kUnavailable:
    case StatusCode::kInternal:
      return ExitCode::kOther;
    default:
      return ExitCode::kUsage;
  }
}

}  // namespace lockstep::cli
