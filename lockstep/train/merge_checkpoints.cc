#include "lockstep/train/merge_checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lockstep/base/quote.h"
#include "lockstep/train/fingerprint.h"

namespace lockstep::train {
namespace {

Status CheckWeights(size_t checkpoints, std::span<const double> weights) {
  if (checkpoints == 0 || weights.size() != checkpoints) {
    return InvalidArgument(
        fmt::format("{} weights for {} checkpoints: each needs one, and there "
                    "must be a checkpoint",
                    weights.size(), checkpoints));
  }
  for (const double weight : weights) {
    if (!std::isfinite(weight) || weight < 0) {
      return InvalidArgument(
          fmt::format("the weight {}: allowed are numbers of at least 0", weight));
    }
  }
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  return sum > 0 && std::isfinite(sum)
             ? OkStatus()
             : InvalidArgument(fmt::format("the weights add up to {}: it must be a number greater "
                                           "than 0",
                                           sum));
}

Status CheckSameModel(const CheckpointInfo& first, const CheckpointInfo& other) {
  LS_ASSIGN_OR_RETURN(
      const FingerprintDifferences differences,
      CompareModels(first.contents.program_fingerprint, other.contents.program_fingerprint,
                    {.stored = "in the first", .current = "in this one"}));
  if (differences.settings.empty()) {
    return OkStatus();
  }
  return FailedPrecondition(fmt::format("{} is of another model than {}: {}", Shown(other.folder),
                                        Shown(first.folder), differences.settings[0].text));
}

// Two checkpoints of one model have the same variables, unless somebody has written them by hand.
Status CheckSameVariable(const CheckpointInfo& info, const NamedTensor& first,
                         const NamedTensor& other) {
  const Tensor& a = first.value;
  const Tensor& b = other.value;
  if (first.name == other.name && a.dtype() == b.dtype() && a.shape() == b.shape()) {
    return OkStatus();
  }
  return FailedPrecondition(
      fmt::format("{} has the variable {} {} {} where the first has {} {} {}", Shown(info.folder),
                  Quoted(other.name), DTypeName(b.dtype()), b.shape().ToString(),
                  Quoted(first.name), DTypeName(a.dtype()), a.shape().ToString()));
}

}  // namespace

Result<Checkpoint> MergeCheckpoints(std::span<const Checkpoint> checkpoints,
                                    std::span<const double> weights) {
  LS_TRY(CheckWeights(checkpoints.size(), weights));
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  const Checkpoint& first = checkpoints[0];
  const size_t count = first.info.contents.model_variables.size();
  Checkpoint merged;
  merged.info.contents = first.info.contents;
  merged.info.contents.slot_variables.clear();
  for (const Checkpoint& other : checkpoints) {
    LS_TRY(CheckSameModel(first.info, other.info));
    if (other.info.contents.model_variables.size() != count) {
      return FailedPrecondition(fmt::format("{} has {} model variables, the first has {}",
                                            Shown(other.info.folder),
                                            other.info.contents.model_variables.size(), count));
    }
    merged.info.contents.step = std::max(merged.info.contents.step, other.info.contents.step);
  }
  std::vector<double> sums;
  for (size_t variable = 0; variable < count; ++variable) {
    const NamedTensor& mine = first.variables[variable];
    if (mine.value.dtype() != DType::kFloat32) {
      return FailedPrecondition(fmt::format("{} of {} is {}, float32 can be merged",
                                            Quoted(mine.name), Shown(first.info.folder),
                                            DTypeName(mine.value.dtype())));
    }
    LS_ASSIGN_OR_RETURN(Tensor average, Tensor::Allocate(DType::kFloat32, mine.value.shape()));
    const std::span<float> result = average.values<float>();
    sums.assign(result.size(), 0);
    for (size_t c = 0; c < checkpoints.size(); ++c) {
      const NamedTensor& other = checkpoints[c].variables[variable];
      LS_TRY(CheckSameVariable(checkpoints[c].info, mine, other));
      const std::span<const float> values = other.value.values<float>();
      for (size_t i = 0; i < sums.size(); ++i) {
        sums[i] += weights[c] * static_cast<double>(values[i]);
      }
    }
    std::transform(sums.begin(), sums.end(), result.begin(),
                   [total](double sum) { return static_cast<float>(sum / total); });
    merged.variables.push_back({mine.name, std::move(average)});
  }
  return merged;
}

}  // namespace lockstep::train
