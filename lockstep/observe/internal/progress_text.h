// The words that the kinds of Progress have in common.
#pragma once

#include <chrono>
#include <string>

#include "lockstep/observe/progress.h"

namespace lockstep::observe::internal {

// Samples and steps per second, smoothed: what happened t seconds ago counts with exp(-t / 5).
class RateMeter {
 public:
  // `now` is when the step ended. The first call starts the clock and counts nothing, because the
  // first step includes compiling the plan.
  void Add(int64_t samples, std::chrono::steady_clock::time_point now);

  // NaN before the second step.
  double samples_per_second() const;
  double steps_per_second() const;

 private:
  bool started_ = false;
  std::chrono::steady_clock::time_point last_;
  double samples_ = 0;
  double steps_ = 0;
  double seconds_ = 0;
};

// "0.1234"; scientific where four decimals would say little.
std::string FormatMetric(double value);

// "5120 samples/s", or "" if unknown.
std::string FormatRate(double samples_per_second);

// "ETA 3m05s", or "" if the end or the speed is unknown.
std::string FormatEta(const StepReport& report, double steps_per_second);

// "epoch 2/5", "step 3/125", without the total if it is 0.
std::string FormatCount(std::string_view what, int64_t count, int64_t total);

// "epoch 2/5: loss 0.1234, accuracy 0.9671, test accuracy 0.9660, 8000 samples in 1.6s (5000
// samples/s)".
std::string FormatEpoch(const EpochReport& report);

}  // namespace lockstep::observe::internal
