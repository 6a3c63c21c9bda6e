// Made-up labelled data of any shape, for benchmarks and tests: a pure function of the options.
//
// Sample i has class i mod num_classes. Its features are a pattern of its class plus noise: every
// channel (the last dimension) has an offset of its own, uniform in [-1, 1); features of rank 3 are
// images and add a coarse grid of 4 x 4 cells, others add an amount per feature, uniform in [-0.5,
// 0.5); the noise is standard normal times `noise`. So a model can learn it, and its loss goes
// down.
#pragma once

#include <cstdint>

#include "lockstep/data/dataset.h"

namespace lockstep::data {

struct SyntheticOptions {
  // Of one sample, rank 1 to 7, every dimension positive.
  Shape sample_shape;
  // At least 2.
  int64_t num_classes = 10;
  // At least 1.
  int64_t train_samples = 1024;
  // May be 0.
  int64_t test_samples = 256;
  uint64_t seed = 0;
  // Standard deviation of the noise; finite, not negative.
  float noise = 0.5F;
  StopCheck should_stop = {};
};

Result<Dataset> MakeSynthetic(const SyntheticOptions& options);

}  // namespace lockstep::data
