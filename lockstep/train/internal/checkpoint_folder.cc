#include "lockstep/train/internal/checkpoint_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
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
#include <tuple>
#include <utility>

#include "lockstep/base/file.h"
#include "lockstep/base/path.h"
#include "lockstep/base/quote.h"
#include "lockstep/train/internal/manifest.h"

namespace lockstep::train::internal {
namespace {

namespace fs = std::filesystem;

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

// A folder with nothing in it but what saves write: nobody else loses anything with it.
bool IsOfSaves(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(path, error))) {
    return false;
  }
  const Result<std::vector<std::string>> files = Entries(path);
  return files.ok() && std::all_of(files->begin(), files->end(), [](const std::string& file) {
           return file == kManifestName ||
                  fs::path(file).extension() == fs::path(ShardName(0, 1)).extension();
         });
}

// What RecoverFolder does with something that has this name.
enum class LeftOver { kNone, kRemoved, kPutBack };

// `name` becomes that of the checkpoint for which it was made.
LeftOver LeftOverOf(const std::string& dir, std::string& name) {
  const std::string path = dir + "/" + name;
  const bool aside = RemoveSuffix(name, kAsideSuffix);
  if ((!aside && !RemoveSuffix(name, kTemporarySuffix)) || !ParseStepName(name).has_value() ||
      !IsOfSaves(path)) {
    return LeftOver::kNone;
  }
  if (!aside || HasManifest(dir + "/" + name)) {
    return LeftOver::kRemoved;
  }
  return HasManifest(path) ? LeftOver::kPutBack : LeftOver::kNone;
}

}  // namespace

std::string StepName(int64_t step) {
  return fmt::format("{}{:08}", kStepPrefix, step);
}

bool HasManifest(const std::string& folder) {
  std::error_code ignored;
  return fs::exists(fmt::format("{}/{}", folder, kManifestName), ignored);
}

bool IsNameOfSaves(std::string_view name) {
  return name.substr(0, kStepPrefix.size()) == kStepPrefix || name == kLatest ||
         name.substr(0, kLatestTemporary.size()) == kLatestTemporary;
}

Status CheckHoldsCheckpoints(const std::string& dir) {
  std::error_code error;
  const fs::path given = fs::path(dir).lexically_normal();
  const fs::path normal = given.has_filename() ? given : given.parent_path();
  if (HasManifest(dir) || ParseStepName(normal.filename().string()).has_value()) {
    return InvalidArgument(fmt::format(
        "{}: {} a single checkpoint; expected is the folder that holds them, such as {}",
        Shown(dir),
        HasManifest(dir) ? fmt::format("holds a {} as", kManifestName) : "is named like",
        Shown(FolderOf(normal.string()))));
  }
  for (fs::path at = fs::absolute(normal, error); at.has_relative_path(); at = at.parent_path()) {
    if (ParseStepName(at.filename().string()).has_value() && HasManifest(at.string())) {
      return InvalidArgument(
          fmt::format("{}: this is inside of the checkpoint {}; expected is a folder outside of it",
                      Shown(dir), Shown(at.string())));
    }
  }
  return OkStatus();
}

MadeFolders::~MadeFolders() {
  for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder) {
    ::rmdir(folder->c_str());
  }
}

Status MadeFolders::Make(const std::string& path) {
  Status status = MakeWithParents(path);
  // What is in the way may be far above.
  const bool named = status.message().find(fmt::format("{}: ", Shown(path))) == 0;
  return named ? status : status.With(fmt::format("for the folder {}", Shown(path)));
}

Status MadeFolders::MakeWithParents(const std::string& path) {
  struct stat info = {};
  if (::lstat(path.c_str(), &info) == 0) {
    return CheckFolder(path);
  }
  if (errno != ENOENT && errno != ENOTDIR) {
    return ErrnoStatus(errno, path, "make the folder");
  }
  const std::string parent = FolderOf(path);
  LS_TRY(MakeWithParents(parent));
  if (::mkdir(path.c_str(), 0777) != 0) {
    // Another task may have been faster.
    return errno == EEXIST ? CheckFolder(path) : ErrnoStatus(errno, path, "make the folder");
  }
  made_.push_back(path);
  return SyncFolder(parent);
}

void RecoverFolder(const std::string& dir) {
  const Result<std::vector<std::string>> entries = Entries(dir);
  if (!entries.ok()) {
    return;
  }
  for (const std::string& entry : *entries) {
    const std::string path = dir + "/" + entry;
    std::string name = entry;
    const LeftOver left_over = LeftOverOf(dir, name);
    if (left_over == LeftOver::kPutBack) {
      std::error_code ignored;
      fs::rename(path, dir + "/" + name, ignored);
    } else if (left_over == LeftOver::kRemoved ||
               entry.substr(0, kLatestTemporary.size()) == kLatestTemporary) {
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

Result<std::vector<StepEntry>> ListSteps(const std::string& dir) {
  LS_ASSIGN_OR_RETURN(const std::vector<std::string> entries, Entries(dir));
  std::vector<StepEntry> found;
  for (const std::string& entry : entries) {
    std::string name = entry;
    if (LeftOverOf(dir, name) == LeftOver::kRemoved) {
      continue;
    }
    name = entry;
    const bool temporary = RemoveSuffix(name, kTemporarySuffix);
    RemoveSuffix(name, kAsideSuffix);
    const std::optional<int64_t> step = ParseStepName(name);
    if (step.has_value()) {
      found.push_back({*step, entry, !temporary && HasManifest(dir + "/" + entry)});
    }
  }
  std::sort(found.begin(), found.end(), [](const StepEntry& a, const StepEntry& b) {
    return std::tie(b.step, b.name) < std::tie(a.step, a.name);
  });
  return found;
}

Result<std::vector<std::string>> ListCheckpoints(const std::string& dir) {
  LS_ASSIGN_OR_RETURN(const std::vector<StepEntry> entries, ListSteps(dir));
  std::vector<std::string> names;
  for (const StepEntry& entry : entries) {
    if (entry.has_manifest) {
      names.push_back(entry.name);
    }
  }
  return names;
}

Result<std::string> ReadLatest(const std::string& dir) {
  const std::string path = fmt::format("{}/{}", dir, kLatest);
  Result<std::string> text = ReadFile(path, kMaxLatestBytes);
  if (!text.ok()) {
    // Too long, or something else than a file.
    const bool damaged = text.status().code() == StatusCode::kOutOfRange ||
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
