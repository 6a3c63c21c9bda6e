#include "lockstep/train/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "lockstep/base/counted.h"
#include "lockstep/base/file.h"
#include "lockstep/base/path.h"
#include "lockstep/base/quote.h"
#include "lockstep/train/internal/checkpoint_folder.h"
#include "lockstep/train/internal/manifest.h"

namespace lockstep::train {
namespace {

using internal::Manifest;
using internal::ManifestVariable;

Status CheckShard(const std::string& path, const FileDigest& found, const FileDigest& expected) {
  if (found.sha256 != expected.sha256) {
    return DataLoss(fmt::format("{}: its bytes 0 to {} have the SHA-256 {}, the manifest says {}",
                                path, found.bytes, found.sha256, expected.sha256));
  }
  return OkStatus();
}

using TensorMap = std::map<std::string, Tensor>;

// The tensors of a shard, which is whole.
Result<TensorMap> ReadShard(const std::string& path, const FileDigest& expected) {
  LS_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  if (file.size() != expected.bytes) {
    return DataLoss(fmt::format("{}: ends at offset {}, the manifest says {}", path, file.size(),
                                expected.bytes));
  }
  LS_ASSIGN_OR_RETURN(SafetensorsContent content, ReadSafetensors(file));
  LS_TRY(CheckShard(path, content.digest, expected));
  TensorMap tensors;
  for (NamedTensor& tensor : content.tensors) {
    tensors.emplace(std::move(tensor.name), std::move(tensor.value));
  }
  return tensors;
}

// Moves the variable out of its shard.
Result<NamedTensor> TakeVariable(const ManifestVariable& variable, const std::string& shard_path,
                                 TensorMap& shard) {
  const VariableSpec& spec = variable.spec;
  const auto it = shard.find(spec.name);
  if (it == shard.end()) {
    return DataLoss(
        fmt::format("{}: tensor {} of the manifest is missing", shard_path, Quoted(spec.name)));
  }
  NamedTensor result{spec.name, std::move(it->second)};
  shard.erase(it);
  if (result.value.dtype() != spec.dtype || !(result.value.shape() == spec.shape)) {
    return DataLoss(fmt::format("{}: tensor {} is {} {}, in the manifest {} {}", shard_path,
                                Quoted(spec.name), DTypeName(result.value.dtype()),
                                result.value.shape().ToString(), DTypeName(spec.dtype),
                                spec.shape.ToString()));
  }
  return result;
}

Result<Checkpoint> ReadFolder(const std::string& folder) {
  const std::string manifest_path = fmt::format("{}/{}", folder, internal::kManifestName);
  LS_ASSIGN_OR_RETURN(const std::string text, ReadFile(manifest_path, internal::kMaxManifestBytes));
  LS_ASSIGN_OR_RETURN(Manifest manifest, internal::ParseManifest(text, manifest_path));
  std::vector<std::string> paths;
  std::vector<TensorMap> shards;
  for (size_t i = 0; i < manifest.shards.size(); ++i) {
    paths.push_back(folder + "/" + internal::ShardName(i, manifest.shards.size()));
    LS_ASSIGN_OR_RETURN(TensorMap shard, ReadShard(paths[i], manifest.shards[i]));
    shards.push_back(std::move(shard));
  }
  Checkpoint checkpoint;
  for (const ManifestVariable& variable : manifest.variables) {
    LS_ASSIGN_OR_RETURN(NamedTensor tensor,
                        TakeVariable(variable, paths[variable.shard], shards[variable.shard]));
    checkpoint.variables.push_back(std::move(tensor));
  }
  for (size_t i = 0; i < shards.size(); ++i) {
    if (!shards[i].empty()) {
      return DataLoss(fmt::format("{}: tensor {} is not in the manifest", paths[i],
                                  Quoted(shards[i].begin()->first)));
    }
  }
  checkpoint.info.folder = folder;
  checkpoint.info.contents = std::move(manifest.contents);
  return checkpoint;
}

// Another checkpoint may be whole where this error was found.
bool IsDamage(const Status& status) {
  return status.code() == StatusCode::kNotFound || status.code() == StatusCode::kDataLoss;
}

// Moves the checkpoint that `latest` names to the front. What speaks against it goes to `problems`.
Status PreferLatest(const std::string& dir, std::vector<std::string>& names,
                    std::vector<std::string>& problems) {
  const Result<std::string> latest = internal::ReadLatest(dir);
  if (!latest.ok()) {
    problems.push_back(latest.status().message());
    return IsDamage(latest.status()) ? OkStatus() : latest.status();
  }
  const auto it = std::find(names.begin(), names.end(), *latest);
  if (it == names.end()) {
    problems.push_back(
        fmt::format("{}/latest: names '{}', which is not a checkpoint here: it has "
                    "no {}",
                    dir, *latest, internal::kManifestName));
    return OkStatus();
  }
  std::rotate(names.begin(), it, it + 1);
  return OkStatus();
}

std::string Described(const VariableSpec& spec) {
  return fmt::format("{} {}{}", DTypeName(spec.dtype), spec.shape.ToString(),
                     spec.role == VariableRole::kSlot ? " slot" : "");
}

// What a checkpoint holds, as a program would describe it.
std::vector<VariableSpec> SpecsOf(const Checkpoint& checkpoint) {
  std::vector<VariableSpec> specs;
  const size_t models = checkpoint.info.contents.model_variables.size();
  for (size_t i = 0; i < checkpoint.variables.size(); ++i) {
    const Tensor& value = checkpoint.variables[i].value;
    specs.push_back({checkpoint.variables[i].name,
                     i < models ? VariableRole::kModel : VariableRole::kSlot, value.dtype(),
                     value.shape()});
  }
  return specs;
}

using SpecMap = std::map<std::string_view, const VariableSpec*>;

SpecMap ByName(std::span<const VariableSpec> specs, const RestoreOptions& options) {
  SpecMap map;
  for (const VariableSpec& spec : specs) {
    if (options.slots || spec.role == VariableRole::kModel) {
      map.emplace(spec.name, &spec);
    }
  }
  return map;
}

// All differences in one message.
Status CheckFit(const std::string& folder, const SpecMap& stored, const SpecMap& program) {
  std::vector<std::string> differences;
  for (const auto& [name, spec] : program) {
    const auto it = stored.find(name);
    if (it == stored.end()) {
      differences.push_back(
          fmt::format("{} ({}) is missing in the checkpoint", Quoted(name), Described(*spec)));
    } else if (Described(*it->second) != Described(*spec)) {
      differences.push_back(fmt::format("{} is {} in the program, {} in the checkpoint",
                                        Quoted(name), Described(*spec), Described(*it->second)));
    }
  }
  for (const auto& [name, spec] : stored) {
    if (program.count(name) == 0) {
      differences.push_back(fmt::format("{} ({}) of the checkpoint is unknown to the program",
                                        Quoted(name), Described(*spec)));
    }
  }
  if (differences.empty()) {
    return OkStatus();
  }
  return FailedPrecondition(fmt::format("{}: the checkpoint does not fit the program in {}: {}",
                                        folder, Counted(differences.size(), "variable"),
                                        fmt::join(differences, "; ")));
}

}  // namespace

bool IsCheckpointFile(const std::string& file, const std::string& dir) {
  const auto name_of = [](const std::string& path) { return path.substr(path.rfind('/') + 1); };
  const std::string folder = FolderOf(file);
  if (internal::IsNameOfSaves(name_of(folder)) && internal::HasManifest(folder)) {
    return true;
  }
  const bool name_of_saves = internal::IsNameOfSaves(name_of(file));
  const Result<std::vector<std::string>> beside = internal::ListCheckpoints(folder);
  if (name_of_saves && beside.ok() && !beside->empty()) {
    return true;
  }
  return !dir.empty() && SameFile(folder, dir) && (internal::HasManifest(dir) || name_of_saves);
}

Result<Checkpoint> ReadCheckpoint(const std::string& path) {
  if (internal::HasManifest(path)) {
    return ReadFolder(path);
  }
  LS_ASSIGN_OR_RETURN(std::vector<std::string> names, internal::ListCheckpoints(path));
  if (names.empty()) {
    return NotFound(
        fmt::format("{}: no checkpoint: there is neither a {} nor a folder '{}' with "
                    "one",
                    path, internal::kManifestName, "step-*"));
  }
  std::vector<std::string> problems;
  std::vector<std::string> damaged;
  LS_TRY(PreferLatest(path, names, problems));
  for (const std::string& name : names) {
    Result<Checkpoint> checkpoint = ReadFolder(path + "/" + name);
    if (checkpoint.ok()) {
      if (!problems.empty()) {
        checkpoint->info.warning = fmt::format("{} is used, because {}", checkpoint->info.folder,
                                               fmt::join(problems, "; "));
      }
      checkpoint->info.damaged = std::move(damaged);
      return checkpoint;
    }
    if (!IsDamage(checkpoint.status())) {
      return checkpoint;
    }
    problems.push_back(checkpoint.status().message());
    damaged.push_back(name);
  }
  return DataLoss(fmt::format("{}: no checkpoint is whole: {}", path, fmt::join(problems, "; ")));
}

Status RestoreVariables(const Checkpoint& checkpoint, std::span<const VariableSpec> program,
                        const RestoreOptions& options, exec::VariableStore& store) {
  const std::vector<VariableSpec> specs = SpecsOf(checkpoint);
  const SpecMap stored = ByName(specs, options);
  LS_TRY(CheckFit(checkpoint.info.folder, stored, ByName(program, options)));
  for (const auto& [name, spec] : stored) {
    LS_ASSIGN_OR_RETURN([[maybe_unused]] const exec::Variable* variable,
                        store.GetOrCreate(name, spec->dtype, spec->shape));
  }
  for (const NamedTensor& variable : checkpoint.variables) {
    if (stored.count(variable.name) > 0) {
      LS_TRY(store.Write(variable.name, variable.value));
    }
  }
  return OkStatus();
}

Result<CheckpointInfo> LoadCheckpoint(const std::string& path,
                                      std::span<const VariableSpec> program,
                                      const RestoreOptions& options, exec::VariableStore& store) {
  LS_ASSIGN_OR_RETURN(Checkpoint checkpoint, ReadCheckpoint(path));
  LS_TRY(RestoreVariables(checkpoint, program, options, store));
  return std::move(checkpoint.info);
}

}  // namespace lockstep::train
