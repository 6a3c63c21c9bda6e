#include "lockstep/train/run_folder.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "lockstep/base/file.h"
#include "lockstep/base/quote.h"
#include "lockstep/train/internal/checkpoint_folder.h"
#include "lockstep/train/internal/disk_space.h"
#include "lockstep/train/internal/manifest.h"
#include "lockstep/train/internal/path_lock.h"

namespace lockstep::train {
namespace {

using internal::Manifest;
using internal::StepEntry;

// A state in memory, apart from the variables it was copied from.
struct Snapshot {
  Manifest manifest;
  std::vector<NamedTensor> tensors;
};

Status CheckContents(const CheckpointContents& contents) {
  if (contents.step < 0 || contents.epoch < 0 || contents.next_batch_step < 0) {
    return InvalidArgument(
        fmt::format("a checkpoint of step {}, epoch {}, batch {}: they count from 0", contents.step,
                    contents.epoch, contents.next_batch_step));
  }
  return OkStatus();
}

Status AddVariables(const std::vector<std::string>& names, VariableRole role,
                    const exec::VariableStore& store, Snapshot& snapshot) {
  for (const std::string& name : names) {
    LS_ASSIGN_OR_RETURN(Tensor value, store.Read(name));
    snapshot.manifest.variables.push_back({{name, role, value.dtype(), value.shape()}, 0});
    snapshot.tensors.push_back({name, std::move(value)});
  }
  return OkStatus();
}

Result<Snapshot> TakeSnapshot(const CheckpointContents& contents,
                              const exec::VariableStore& store) {
  LS_TRY(CheckContents(contents));
  Snapshot snapshot;
  snapshot.manifest.contents = contents;
  LS_TRY(AddVariables(contents.model_variables, VariableRole::kModel, store, snapshot));
  LS_TRY(AddVariables(contents.slot_variables, VariableRole::kSlot, store, snapshot));
  return snapshot;
}

uint64_t BytesOf(const Snapshot& snapshot) {
  uint64_t bytes = 0;
  for (const NamedTensor& tensor : snapshot.tensors) {
    bytes += tensor.value.bytes();
  }
  return bytes;
}

Status WriteManifest(const std::string& folder, const Manifest& manifest) {
  LS_ASSIGN_OR_RETURN(const std::string text, internal::ManifestText(manifest));
  if (text.size() > internal::kMaxManifestBytes) {
    return InvalidArgument(fmt::format("{}: the manifest needs {} bytes, allowed are {}", folder,
                                       text.size(), internal::kMaxManifestBytes));
  }
  LS_ASSIGN_OR_RETURN(OutputFile file,
                      OutputFile::Create(fmt::format("{}/{}", folder, internal::kManifestName)));
  LS_TRY(file.Append(text.data(), text.size()));
  return file.Finish();
}

// A folder can be made in `dir`: access(2) says less, of a full disk for instance.
Status TryToWrite(const std::string& dir) {
  std::string probe = dir + "/probe-XXXXXX";
  if (::mkdtemp(probe.data()) == nullptr) {
    return ErrnoStatus(errno, dir, "make a folder in it");
  }
  if (::rmdir(probe.c_str()) != 0) {
    return ErrnoStatus(errno, probe, "remove");
  }
  return OkStatus();
}

Status InTheWay(const std::string& path) {
  return AlreadyExists(
      fmt::format("{} is there, and is no checkpoint of this run: a later save would want its "
                  "name; move it away, or give this run a folder of its own",
                  Shown(path)));
}

bool Exists(const std::string& path) {
  struct stat info = {};
  return ::lstat(path.c_str(), &info) == 0;
}

}  // namespace

RunFolder::RunFolder(Token, std::string dir, std::unique_ptr<internal::PathLock> lock,
                     std::unique_ptr<internal::MadeFolders> made)
    : dir_(std::move(dir)), lock_(std::move(lock)), made_(std::move(made)) {}

RunFolder::~RunFolder() {
  if (!lock_->CheckStillAt(dir_).ok()) {
    // What is there now is somebody else's.
    made_->Keep();
  }
}

Result<std::unique_ptr<RunFolder>> RunFolder::Open(const std::string& dir, bool make) {
  LS_TRY(internal::CheckHoldsCheckpoints(dir));
  auto made = std::make_unique<internal::MadeFolders>();
  if (make) {
    LS_TRY(made->Make(dir));
  }
  LS_ASSIGN_OR_RETURN(internal::PathLock lock, internal::PathLock::OnFolder(dir));
  LS_TRY(TryToWrite(dir));
  return std::make_unique<RunFolder>(
      Token(), dir, std::make_unique<internal::PathLock>(std::move(lock)), std::move(made));
}

Status RunFolder::CheckLatest() const {
  const std::string path = dir_ + "/latest";
  struct stat info = {};
  if (::lstat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    return InTheWay(path);
  }
  return OkStatus();
}

Status RunFolder::CheckNew() const {
  LS_ASSIGN_OR_RETURN(const std::vector<StepEntry> entries, internal::ListSteps(dir_));
  for (const StepEntry& entry : entries) {
    if (entry.has_manifest) {
      return AlreadyExists(
          fmt::format("{} holds checkpoints of another run already, the newest of step {}: go on "
                      "from it with --resume, or give this run a folder of its own",
                      Shown(dir_), entry.step));
    }
  }
  if (!entries.empty()) {
    return InTheWay(dir_ + "/" + entries.front().name);
  }
  LS_TRY(CheckLatest());
  const Result<std::string> latest = internal::ReadLatest(dir_);
  return latest.ok() || latest.status().code() == StatusCode::kNotFound
             ? OkStatus()
             : InTheWay(dir_ + "/latest");
}

Status RunFolder::CheckResumed(const CheckpointInfo& from) {
  LS_ASSIGN_OR_RETURN(const std::vector<StepEntry> entries, internal::ListSteps(dir_));
  for (const StepEntry& entry : entries) {
    const bool damaged =
        std::find(from.damaged.begin(), from.damaged.end(), entry.name) != from.damaged.end();
    if (damaged) {
      damaged_.push_back(entry.name);
    } else if (entry.step > from.contents.step && entry.has_manifest) {
      return AlreadyExists(fmt::format(
          "{0}/{1} is newer than {2}, from which this run would go on because {0}/latest names it: "
          "a later save would want its name; move it away, or let 'latest' name it",
          Shown(dir_), entry.name, Shown(from.folder)));
    } else if (entry.step > from.contents.step) {
      return InTheWay(dir_ + "/" + entry.name);
    }
  }
  return CheckLatest();
}

Status RunFolder::CheckSpace(uint64_t bytes) const {
  return internal::CheckDiskSpace(dir_, "a checkpoint", bytes);
}

Status RunFolder::SetAside(const std::string& name, SavedCheckpoint& saved) const {
  const std::string path = dir_ + "/" + name;
  for (int i = 1; Exists(path); ++i) {
    const std::string aside = fmt::format("{}.old-{}", path, i);
    if (Exists(aside)) {
      continue;
    }
    if (::rename(path.c_str(), aside.c_str()) != 0) {
      return ErrnoStatus(errno, path, fmt::format("rename it to {}", Shown(aside)));
    }
    saved.set_aside.push_back(aside);
  }
  return OkStatus();
}

Result<SavedCheckpoint> RunFolder::Save(const CheckpointContents& contents,
                                        const exec::VariableStore& store) {
  LS_ASSIGN_OR_RETURN(Snapshot snapshot, TakeSnapshot(contents, store));
  LS_TRY(lock_->CheckStillAt(dir_));
  LS_TRY(CheckSpace(BytesOf(snapshot)));
  internal::RecoverFolder(dir_);
  LS_ASSIGN_OR_RETURN(internal::StagedFolder staged,
                      internal::StagedFolder::Create(dir_, contents.step));
  LS_ASSIGN_OR_RETURN(
      FileDigest digest,
      WriteSafetensors(staged.path() + "/" + internal::ShardName(0, 1), snapshot.tensors, {}));
  snapshot.manifest.shards.push_back(std::move(digest));
  LS_TRY(WriteManifest(staged.path(), snapshot.manifest));
  SavedCheckpoint saved;
  if (written_.count(contents.step) == 0) {
    LS_TRY(SetAside(internal::StepName(contents.step), saved));
  }
  LS_ASSIGN_OR_RETURN(saved.folder, staged.Commit());
  written_.insert(contents.step);
  made_->Keep();
  for (const std::string& name : std::exchange(damaged_, {})) {
    if (saved.folder != dir_ + "/" + name) {
      LS_TRY(SetAside(name, saved));
    }
  }
  if (!CheckLatest().ok()) {
    LS_TRY(SetAside("latest", saved));
  }
  const Status latest = internal::WriteLatest(dir_, contents.step);
  if (!latest.ok()) {
    return latest.With(fmt::format("the checkpoint {} itself is complete", saved.folder));
  }
  return saved;
}

}  // namespace lockstep::train
