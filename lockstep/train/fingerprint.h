// The fingerprint of a run: every setting on which its trajectory (the parameters after each step)
// depends, with names that users know. A checkpoint keeps it, so that a run that goes on from there
// either is the same run or is refused with what differs, and parameters are not put into another
// model than they were trained in. What does not change a bit is not in it: devices, the number of
// steps and epochs, evaluation, logging, paths.
//
// The text is a JSON object of strings: {"model.name": "\"mlp\"", "train.seed": "0", ...}.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/tensor/shape.h"
#include "lockstep/train/config.h"

namespace lockstep::train {

// What a configuration leaves open or does not say.
struct RunFacts {
  Shape sample_shape = {};
  int64_t num_classes = 0;
  int64_t train_samples = 0;
  // Of the training samples (data::ContentSha256). Empty for made-up data, which the settings
  // determine.
  std::string data_sha256 = {};
  // Without a decay_steps of its own, a schedule is stretched over the run (PlannedSteps).
  int64_t planned_steps = 0;
  int threads_per_device = 1;
  // Replicas train apart and are merged: the strategy local_sgd. All others have the same bits.
  bool local_sgd = false;
};

std::string MakeFingerprint(const Config& config, const RunFacts& facts);

struct FingerprintDifference {
  // "optimizer.name".
  std::string name;
  // "optimizer.name is "sgd" in the checkpoint, "adam" in this run".
  std::string text;
};

struct FingerprintDifferences {
  // Another trajectory, or for CompareModels another model.
  std::vector<FingerprintDifference> settings;
  // What changes the rounding of sums only: threads, or for CompareModels the precision.
  std::vector<FingerprintDifference> rounding;
  // CompareModels only: samples made up from another seed look like nothing the model has seen.
  std::vector<FingerprintDifference> made_up_data;
};

// What a difference says of the two sides.
struct FingerprintSides {
  std::string_view stored = "in the checkpoint";
  std::string_view current = "in this run";
};

// Whether a run goes on as the stored one began. FAILED_PRECONDITION if `stored` is no fingerprint,
// as versions before this one wrote it.
Result<FingerprintDifferences> CompareFingerprints(std::string_view stored,
                                                   std::string_view current,
                                                   const FingerprintSides& sides = {});

// Whether the stored parameters mean in this model what they meant when they were trained. Errors
// as above.
Result<FingerprintDifferences> CompareModels(std::string_view stored, std::string_view current,
                                             const FingerprintSides& sides = {});

}  // namespace lockstep::train
