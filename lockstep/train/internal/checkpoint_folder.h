// The folders of a run's checkpoints: names, replacing a folder as a whole, `latest`.
//
//   step-00000123           a checkpoint, if it has a manifest
//   step-00000123.tmp       being written, or left by a crash: nothing
//   step-00000123.replaced  set aside while the new step-00000123 takes its place; what is there
//                           counts as step-00000123 as long as that is missing
//   step-00000123.old-1     was in the way of step-00000123 and is not of the run that wrote that
//   latest                  a file with the name of the newest
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/result.h"

namespace lockstep::train::internal {

// "step-00000123": at least 8 digits.
std::string StepName(int64_t step);

bool HasManifest(const std::string& folder);

// Whether saves and recovery may write, replace or remove something of this name in a folder of
// checkpoints.
bool IsNameOfSaves(std::string_view name);

// INVALID_ARGUMENT if `dir` is a single checkpoint, or is named like one, or is inside of one.
Status CheckHoldsCheckpoints(const std::string& dir);

// Folders made for a save that may still fail.
class MadeFolders {
 public:
  MadeFolders() = default;
  MadeFolders(const MadeFolders&) = delete;
  MadeFolders& operator=(const MadeFolders&) = delete;
  // Removes the made ones again, unless they are kept or somebody has put something into them.
  ~MadeFolders();

  // Makes `path` and what is missing above it, durably. The error names what is in the way, and in
  // its context `path`.
  Status Make(const std::string& path);

  void Keep() { made_.clear(); }

 private:
  Status MakeWithParents(const std::string& path);

  // The outermost first.
  std::vector<std::string> made_;
};

// Removes or puts back what interrupted saves left; failures are ignored, and a folder with files
// of others in it stays. Under the lock.
void RecoverFolder(const std::string& dir);

// The folder of one step while it is written. Under the lock.
class StagedFolder {
 public:
  static Result<StagedFolder> Create(const std::string& dir, int64_t step);

  StagedFolder(StagedFolder&& other) noexcept
      : dir_(std::move(other.dir_)),
        name_(std::move(other.name_)),
        path_(std::exchange(other.path_, {})) {}

  StagedFolder& operator=(StagedFolder&&) = delete;
  // Removes the temporary folder.
  ~StagedFolder();

  // Where to write.
  const std::string& path() const { return path_; }

  // Gives the folder its name, in place of one that has it, and returns its path.
  Result<std::string> Commit();

 private:
  StagedFolder(std::string dir, std::string name)
      : dir_(std::move(dir)), name_(std::move(name)), path_(dir_ + "/" + name_ + ".tmp") {}

  std::string dir_;
  std::string name_;
  std::string path_;
};

// Puts `source` in the place of the folder `target`, which is kept as `aside` in between, for file
// systems that cannot exchange two folders. `folder` holds all of them.
Status ReplaceInTwoSteps(const std::string& source, const std::string& target,
                         const std::string& aside, const std::string& folder);

// Something that has the name of a checkpoint, ".replaced" and ".tmp" included.
struct StepEntry {
  int64_t step = 0;
  std::string name;
  // A checkpoint, whole or damaged.
  bool has_manifest = false;
};

// The newest step first. Left out is what RecoverFolder would remove.
Result<std::vector<StepEntry>> ListSteps(const std::string& dir);

// Names of the folders that have a manifest, the newest step first.
Result<std::vector<std::string>> ListCheckpoints(const std::string& dir);

// NOT_FOUND if there is none, DATA_LOSS if it does not hold a name of a step.
Result<std::string> ReadLatest(const std::string& dir);
Status WriteLatest(const std::string& dir, int64_t step);

}  // namespace lockstep::train::internal
