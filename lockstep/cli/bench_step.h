// lockstep bench step: the time of a full training step on made-up data.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/cli/command.h"

namespace lockstep::cli {

struct BenchStepFlags {
  std::string model = "mnist_cnn";
  std::string optimizer = "momentum";
  int64_t batch = 64;
  int64_t steps = 50;
  int64_t warmup = 5;
  std::string precision = "fp32";
  int threads = 1;
  // Prints the time of each kernel as well.
  bool profile = false;
  // Prints the plan and does not run it.
  bool plan = false;
};

// One JSON object on standard output, with the keys that bench/peers prints.
Outcome BenchStep(const BenchStepFlags& flags);

}  // namespace lockstep::cli
