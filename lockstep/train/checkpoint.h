// Checkpoints: the state of a run on disk. In the run's checkpoint folder each is a folder
// step-00000123/ with the variables as safetensors files (plain row-major) and manifest.json, which
// is written last and holds sizes and SHA-256 of the files and of itself; `latest` names the newest
// folder. A folder without a valid manifest is no checkpoint. All is written under another name,
// synchronised, then renamed, so that a crash at any moment leaves the checkpoints that were there.
// Folders may be moved and copied: nothing in them holds a path. RunFolder writes them.
//
// Nothing here keeps state; the variables must not change during a call.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/exec/variable_store.h"
#include "lockstep/train/safetensors.h"

namespace lockstep::train {

enum class VariableRole {
  // Parameters and running statistics: what evaluation needs.
  kModel,
  // State of the optimizer.
  kSlot,
};

struct CheckpointContents {
  // Steps done.
  int64_t step = 0;
  // The next batch: its epoch and its number within the epoch, both from 0.
  int64_t epoch = 0;
  int64_t next_batch_step = 0;
  uint64_t seed = 0;
  std::vector<std::string> model_variables;
  std::vector<std::string> slot_variables;
  // Whatever identifies the program that was run. UTF-8.
  std::string program_fingerprint;
  // Its configuration (Config::text). UTF-8.
  std::string config;
};

struct CheckpointInfo {
  // The folder that was read.
  std::string folder;
  // Not empty if it is not the one that was asked for: what is wrong with that.
  std::string warning;
  // Names of the checkpoints of the same folder that were passed over because they are damaged.
  std::vector<std::string> damaged;
  CheckpointContents contents;
};

struct Checkpoint {
  CheckpointInfo info;
  // Model variables, then slots, each in the order of `contents`.
  std::vector<NamedTensor> variables;
};

// Whether `file` is a file of a checkpoint, or may become one by its name: in `dir`, which holds
// checkpoints or is one, or in a folder that is named like a checkpoint.
bool IsCheckpointFile(const std::string& file, const std::string& dir);

// `path` is the folder of one checkpoint, or a folder of checkpoints. In the latter the one that
// `latest` names is read, and if that is missing or damaged the newest valid one, with a warning.
// Everything is checked against the manifest. NOT_FOUND where there is no checkpoint; DATA_LOSS,
// naming file and offset or tensor, where there is none that is whole.
Result<Checkpoint> ReadCheckpoint(const std::string& path);

struct VariableSpec {
  std::string name;
  VariableRole role = VariableRole::kModel;
  DType dtype = DType::kFloat32;
  Shape shape;
};

struct RestoreOptions {
  // False leaves the slots of checkpoint and program alone, as evaluation does.
  bool slots = true;
};

// Puts the variables into the store, creating those that are missing. Variables that the
// checkpoint lacks, that the program lacks, or that differ in role, element type or shape are
// FAILED_PRECONDITION with all of them in one message. After an error no variable has a new value.
Status RestoreVariables(const Checkpoint& checkpoint, std::span<const VariableSpec> program,
                        const RestoreOptions& options, exec::VariableStore& store);

// ReadCheckpoint and RestoreVariables.
Result<CheckpointInfo> LoadCheckpoint(const std::string& path,
                                      std::span<const VariableSpec> program,
                                      const RestoreOptions& options, exec::VariableStore& store);

}  // namespace lockstep::train
