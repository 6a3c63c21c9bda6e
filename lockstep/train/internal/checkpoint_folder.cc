#include "lockstep/train/internal/checkpoint_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "lockstep/base/file.h"
#include "lockstep/base/quote.h"
#include "lockstep/train/internal/manifest.h"

namespace lockstep::train::internal {
namespace {

namespace fs = std::filesystem;
using lockstep::internal::Descriptor;

constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kTemporarySuffix = ".tmp";
constexpr std::string_view kAsideSuffix = ".replaced";
constexpr std::string_view kLatest = "latest";
constexpr std::string_view kLatestTemporary = "latest.tmp-";
constexpr uint64_t kMaxLatestBytes = 100;

std::optional<int64_t> ParseStepName(std::string_view name) {
  if (name.substr(0, kStepPrefix.size()) != kStepPrefix) {
    return std::nullopt;
  }
  int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kStepPrefix.size(), end, step);
  // Writing it again refuses other spellings of the number.
  if (error != std::errc() || stop != end || step < 0 || StepName(step) != name) {
    return std::nullopt;
  }
  return step;
}

bool RemoveSuffix(std::string& name, std::string_view suffix) {
  if (name.size() < suffix.size() ||
      std::string_view(name).substr(name.size() - suffix.size()) != suffix) {
    return false;
  }
  name.resize(name.size() - suffix.size());
  return true;
}

Result<std::vector<std::string>> Entries(const std::string& dir) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator it(dir, error);
  while (!error && it != fs::directory_iterator()) {
    names.push_back(it->path().filename().string());
    it.increment(error);
  }
  if (error) {
    return ErrnoStatus(error.value(), dir, "list the folder");
  }
  std::sort(names.begin(), names.end());
  return names;
}

void RemoveAll(const std::string& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

// The folder that holds `path`.
std::string ParentOf(const std::string& path) {
  const std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

}  // namespace

std::string StepName(int64_t step) {
  return fmt::format("{}{:08}", kStepPrefix, step);
}

bool HasManifest(const std::string& folder) {
  std::error_code ignored;
  return fs::exists(fmt::format("{}/{}", folder, kManifestName), ignored);
}

int64_t StepOf(const std::string& name) {
  std::string step = name;
  RemoveSuffix(step, kAsideSuffix);
  return ParseStepName(step).value_or(0);
}

MadeFolders::~MadeFolders() {
  for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder) {
    ::rmdir(folder->c_str());
  }
}

Status MadeFolders::Make(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    return OkStatus();
  }
  const std::string parent = ParentOf(path);
  if (parent != path && parent != ".") {
    LS_TRY(Make(parent));
  }
  if (::mkdir(path.c_str(), 0777) != 0) {
    // Another task may have been faster.
    if (errno == EEXIST && fs::is_directory(path, error)) {
      return OkStatus();
    }
    return ErrnoStatus(errno, path, "create the folder");
  }
  made_.push_back(path);
  return SyncFolder(parent);
}

Result<FolderLock> FolderLock::Acquire(const std::string& dir) {
  Descriptor fd(::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) {
    return ErrnoStatus(errno, dir, "open the folder");
  }
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return Aborted(
        fmt::format("{}: another save of a checkpoint is under way in this folder", dir));
  }
  return FolderLock(std::move(fd));
}

void RecoverFolder(const std::string& dir) {
  const Result<std::vector<std::string>> entries = Entries(dir);
  if (!entries.ok()) {
    return;
  }
  for (const std::string& entry : *entries) {
    const std::string path = dir + "/" + entry;
    std::string name = entry;
    if (RemoveSuffix(name, kTemporarySuffix) && ParseStepName(name).has_value()) {
      RemoveAll(path);
    } else if (RemoveSuffix(name, kAsideSuffix) && ParseStepName(name).has_value()) {
      if (HasManifest(dir + "/" + name)) {
        RemoveAll(path);
      } else {
        std::error_code ignored;
        fs::rename(path, dir + "/" + name, ignored);
      }
    } else if (entry.substr(0, kLatestTemporary.size()) == kLatestTemporary) {
      RemoveAll(path);
    }
  }
}

Result<StagedFolder> StagedFolder::Create(const std::string& dir, int64_t step) {
  const std::string name = StepName(step);
  const std::string path = dir + "/" + name + std::string(kTemporarySuffix);
  if (::mkdir(path.c_str(), 0777) != 0) {
    return ErrnoStatus(errno, path, "create the folder");
  }
  return StagedFolder(dir, name);
}

StagedFolder::~StagedFolder() {
  if (!path_.empty()) {
    RemoveAll(path_);
  }
}

Result<std::string> StagedFolder::Commit() {
  LS_TRY(SyncFolder(path_));
  std::string target = dir_ + "/" + name_;
  if (::rename(path_.c_str(), target.c_str()) != 0) {
    if (errno != ENOTEMPTY && errno != EEXIST) {
      return ErrnoStatus(errno, target, "put the checkpoint in its place");
    }
    if (::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) != 0) {
      if (errno != EINVAL && errno != ENOSYS) {
        return ErrnoStatus(errno, target, "replace the checkpoint");
      }
      LS_TRY(ReplaceInTwoSteps(path_, target, target + std::string(kAsideSuffix), dir_));
    }
  }
  LS_TRY(SyncFolder(dir_));
  return target;
}

Status ReplaceInTwoSteps(const std::string& source, const std::string& target,
                         const std::string& aside, const std::string& folder) {
  if (::rename(target.c_str(), aside.c_str()) != 0) {
    return ErrnoStatus(errno, target, "set the old checkpoint aside");
  }
  if (::rename(source.c_str(), target.c_str()) != 0) {
    const Status status = ErrnoStatus(errno, target, "put the checkpoint in its place");
    std::error_code ignored;
    fs::rename(aside, target, ignored);
    return status;
  }
  // The old one goes only when the new one is there for good.
  LS_TRY(SyncFolder(folder));
  RemoveAll(aside);
  return OkStatus();
}

Result<std::vector<std::string>> ListCheckpoints(const std::string& dir) {
  LS_ASSIGN_OR_RETURN(const std::vector<std::string> entries, Entries(dir));
  std::vector<std::pair<int64_t, std::string>> found;
  for (const std::string& entry : entries) {
    std::string name = entry;
    const bool aside = RemoveSuffix(name, kAsideSuffix);
    const std::optional<int64_t> step = ParseStepName(name);
    if (step.has_value() && HasManifest(dir + "/" + entry) &&
        !(aside && HasManifest(dir + "/" + name))) {
      found.emplace_back(*step, entry);
    }
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<std::string> names;
  for (auto& [step, name] : found) {
    names.push_back(std::move(name));
  }
  return names;
}

Result<std::string> ReadLatest(const std::string& dir) {
  const std::string path = fmt::format("{}/{}", dir, kLatest);
  Result<std::string> text = ReadFile(path, kMaxLatestBytes);
  if (!text.ok()) {
    // Too long, or something else than a file.
    const bool damaged = text.status().code() == StatusCode::kResourceExhausted ||
                         text.status().code() == StatusCode::kInvalidArgument;
    return damaged ? DataLoss(text.status().message()) : text.status();
  }
  std::string name = *text;
  if (!RemoveSuffix(name, "\n") || !ParseStepName(name).has_value()) {
    return DataLoss(
        fmt::format("{}: offset 0: found {}, expected the name of a checkpoint such as "
                    "'{}' and a line's end",
                    path, Quoted(*text), StepName(123)));
  }
  return name;
}

Status WriteLatest(const std::string& dir, int64_t step) {
  return WriteFileAtomic(fmt::format("{}/{}", dir, kLatest), StepName(step) + "\n");
}

}  // namespace lockstep::train::internal
