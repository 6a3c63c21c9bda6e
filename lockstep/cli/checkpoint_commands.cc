#include "lockstep/cli/checkpoint_commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/quote.h"
#include "lockstep/cli/outputs.h"
#include "lockstep/train/merge_checkpoints.h"
#include "lockstep/train/run_folder.h"

namespace lockstep::cli {
namespace {

struct MergeFlags {
  std::vector<double> weights;
  std::vector<std::string> inputs;
  std::string output;
};

Status Fill(const train::Checkpoint& checkpoint, exec::VariableStore& store) {
  for (const train::NamedTensor& variable : checkpoint.variables) {
    LS_TRY(
        store.GetOrCreate(variable.name, variable.value.dtype(), variable.value.shape()).status());
    LS_TRY(store.Write(variable.name, variable.value));
  }
  return OkStatus();
}

Outcome Save(const train::Checkpoint& merged, train::RunFolder& folder) {
  exec::VariableStore store;
  if (Status filled = Fill(merged, store); !filled.ok()) {
    return Fail(ExitCode::kOther, std::move(filled));
  }
  const Result<train::SavedCheckpoint> saved = folder.Save(merged.info.contents, store);
  if (!saved.ok()) {
    return Fail(ExitCode::kOther, saved.status());
  }
  PrintOutput(fmt::format("{}\n", EscapeControls(saved->folder)));
  return Done();
}

Outcome Merge(const MergeFlags& flags) {
  std::vector<double> weights = flags.weights;
  if (weights.empty()) {
    weights.assign(flags.inputs.size(), 1);
  }
  if (weights.size() != flags.inputs.size()) {
    return Fail(ExitCode::kUsage,
                InvalidArgument(fmt::format("--weights has {} numbers for {} checkpoints: each "
                                            "needs one",
                                            weights.size(), flags.inputs.size())));
  }
  Result<std::unique_ptr<train::RunFolder>> folder =
      train::RunFolder::Open(flags.output, /*make=*/true);
  Status ready = folder.ok() ? (*folder)->CheckNew() : folder.status();
  if (!ready.ok()) {
    return Fail(CodeOfPath(ready), std::move(ready));
  }
  std::vector<train::Checkpoint> checkpoints;
  for (const std::string& input : flags.inputs) {
    Result<train::Checkpoint> checkpoint = train::ReadCheckpoint(input);
    if (!checkpoint.ok()) {
      return Fail(ExitCode::kData, checkpoint.status());
    }
    if (!checkpoint->info.warning.empty()) {
      PrintWarning(checkpoint->info.warning);
    }
    checkpoints.push_back(std::move(checkpoint).value());
  }
  const Result<train::Checkpoint> merged = train::MergeCheckpoints(checkpoints, weights);
  if (!merged.ok()) {
    const bool usage = merged.status().code() == StatusCode::kInvalidArgument;
    return Fail(usage ? ExitCode::kUsage : ExitCode::kData, merged.status());
  }
  return Save(*merged, **folder);
}

}  // namespace

void AddCheckpointCommands(CLI::App& app, Outcome& outcome) {
  CLI::App* checkpoint = app.add_subcommand("checkpoint", "Work with checkpoints");
  checkpoint->require_subcommand(1);
  auto flags = std::make_shared<MergeFlags>();
  CLI::App* merge = checkpoint->add_subcommand(
      "merge", "Average models that were trained apart, as one checkpoint without slots");
  merge
      ->add_option("--weights", flags->weights,
                   "A number of at least 0 for each, such as its samples (all the same)")
      ->type_name("A,B,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  merge
      ->add_option("IN", flags->inputs,
                   "Checkpoints, or folders of them: then the newest; 1 or more of one model")
      ->type_name("DIR")
      ->required();
  merge->add_option("-o,--output", flags->output, "Folder for the result; must hold no checkpoint")
      ->type_name("DIR")
      ->required();
  merge->callback([flags, &outcome] { outcome = Merge(*flags); });
}

}  // namespace lockstep::cli
