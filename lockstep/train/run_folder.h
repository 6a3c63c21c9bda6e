// The folder of a run's checkpoints, held by that run from its start to its end: nobody else may
// write to it meanwhile, and what this run did not write it neither replaces nor removes.
//
//   LS_ASSIGN_OR_RETURN(const std::unique_ptr<RunFolder> folder, RunFolder::Open(dir, true));
//   LS_TRY(folder->CheckNew());
//   ... train ...
//   LS_ASSIGN_OR_RETURN(const SavedCheckpoint saved, folder->Save(contents, store));
//
// The lock is the system's, on the folder itself: it ends with the process, however that ends. A
// file system without locks is used without. Readers need no lock. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lockstep/exec/variable_store.h"
#include "lockstep/train/checkpoint.h"

namespace lockstep::train {

namespace internal {
class MadeFolders;
class PathLock;
}  // namespace internal

struct SavedCheckpoint {
  // Its folder.
  std::string folder;
  // New names of what was in the way and is not of this run.
  std::vector<std::string> set_aside;
};

class RunFolder {
  // So that only Open makes one.
  struct Token {
    explicit Token() = default;
  };

 public:
  // Locks `dir` and tries whether it can be written to; with `make` it is made where it is missing.
  // ABORTED while another run has it, naming the process where that is known; INVALID_ARGUMENT for
  // the folder of a single checkpoint.
  static Result<std::unique_ptr<RunFolder>> Open(const std::string& dir, bool make);

  RunFolder(Token, std::string dir, std::unique_ptr<internal::PathLock> lock,
            std::unique_ptr<internal::MadeFolders> made);
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  // Removes folders that Open made and nobody has used.
  ~RunFolder();

  // Whether a run that begins can save here: ALREADY_EXISTS if there are checkpoints, with which it
  // would mix, or anything else that has one of their names.
  Status CheckNew() const;

  // The same for a run that goes on from this checkpoint of the folder. The damaged ones that were
  // passed over on the way to it are no obstacle.
  Status CheckResumed(const CheckpointInfo& from);

  // RESOURCE_EXHAUSTED if the disk has no room for files of so many bytes together.
  Status CheckSpace(uint64_t bytes) const;

  // Writes `contents` and the variables it names to DIR/step-N and lets DIR/latest name it. A
  // checkpoint of that step that this run has written is replaced once the new one is complete;
  // anything else in the way, and the damaged newer ones, get another name. After an error nothing
  // of it is left behind; the message of a full disk or a forbidden folder names the file.
  // FAILED_PRECONDITION if the folder was moved or removed since Open. Also removes what
  // interrupted saves left behind.
  Result<SavedCheckpoint> Save(const CheckpointContents& contents,
                               const exec::VariableStore& store);

 private:
  Status CheckLatest() const;
  Status SetAside(const std::string& name, SavedCheckpoint& saved) const;

  const std::string dir_;
  std::unique_ptr<internal::PathLock> lock_;
  // Goes before the lock does.
  std::unique_ptr<internal::MadeFolders> made_;
  // Steps that this run has saved.
  std::set<int64_t> written_;
  // Names of damaged checkpoints that are newer than the one this run went on from.
  std::vector<std::string> damaged_;
};

}  // namespace lockstep::train
