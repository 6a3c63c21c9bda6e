#include "lockstep/train/summary_file.h"

#include <fmt/format.h>

#include <utility>

#include "lockstep/base/file.h"
#include "lockstep/base/path.h"
#include "lockstep/base/quote.h"
#include "lockstep/train/internal/disk_space.h"

namespace lockstep::train {
namespace {

// More than any summary has.
constexpr uint64_t kMaxBytes = uint64_t{64} << 10;
constexpr size_t kMaxNameBytes = 200;

// Whether a summary may take the place of what is there.
Status CheckReplaceable(const std::string& path) {
  const Result<std::string> content = ReadFile(path, kMaxBytes);
  if (content.status().code() == StatusCode::kNotFound) {
    return OkStatus();
  }
  // What is longer is something else.
  if (!content.ok() && content.status().code() != StatusCode::kOutOfRange) {
    return content.status();
  }
  if (content.ok() && (content->empty() || IsSummary(*content))) {
    return OkStatus();
  }
  return AlreadyExists(
      fmt::format("{}: is there, and is no summary of an earlier run, which alone would be "
                  "replaced; move it away, or give this run another file",
                  Shown(path)));
}

}  // namespace

Result<std::unique_ptr<SummaryFile>> SummaryFile::Open(const std::string& path) {
  LS_ASSIGN_OR_RETURN(const std::string target, ResolveTarget(path));
  const size_t name_bytes = target.size() - (target.rfind('/') + 1);
  if (name_bytes > kMaxNameBytes) {
    return InvalidArgument(
        fmt::format("{}: the name has {} bytes, allowed are at most {}: the file has a longer name "
                    "while it is written",
                    Shown(path), name_bytes, kMaxNameBytes));
  }
  LS_ASSIGN_OR_RETURN(internal::PathLock lock, internal::PathLock::OnFile(target));
  LS_TRY(CheckReplaceable(path));
  LS_TRY(internal::CheckDiskSpace(FolderOf(target), "a summary", SummaryJson(Summary()).size()));
  return std::make_unique<SummaryFile>(Token(), path, std::move(lock));
}

Status SummaryFile::Write(const Summary& summary) {
  LS_TRY(CheckReplaceable(path_));
  return WriteFileAtomic(path_, SummaryJson(summary));
}

}  // namespace lockstep::train
