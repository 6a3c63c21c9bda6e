// Progress: how a run is going, for the person who started it. The trainer calls it; the program
// chooses the kind: a bar that is redrawn in place on a terminal, plain lines elsewhere, or
// nothing. Not thread-safe: one thread calls it.
//
//   auto progress = MakeLineProgress(std::cout, {.every_steps = 100}, SteadyClock());
//   progress->OnStep({.epoch = 0, .epochs = 5, .step = 1, .steps = 125, ...});
//   epoch 1/5 step 100/125: loss 0.4312, accuracy 0.8705, 5120 samples/s, ETA 1m02s
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <ostream>
#include <string_view>

namespace lockstep::observe {

constexpr double kUnknownMetric = std::numeric_limits<double>::quiet_NaN();

// After one step. Totals of 0 are unknown.
struct StepReport {
  // Counted from 0.
  int64_t epoch = 0;
  int64_t epochs = 0;
  // Steps done in this epoch, and what the epoch has.
  int64_t step = 0;
  int64_t steps = 0;
  // Steps done in the run, those before a resume included, and what the run will have.
  int64_t run_step = 0;
  int64_t run_steps = 0;
  // Real samples of this step over all replicas.
  int64_t samples = 0;
  // Of this step or a mean over the last ones, as the trainer has it. An unknown accuracy is left
  // out.
  double loss = kUnknownMetric;
  double accuracy = kUnknownMetric;
};

// After one epoch, or after the part of it that the run got to. Unknown metrics are left out.
struct EpochReport {
  int64_t epoch = 0;
  int64_t epochs = 0;
  int64_t samples = 0;
  double seconds = 0;
  double loss = kUnknownMetric;
  double accuracy = kUnknownMetric;
  double test_loss = kUnknownMetric;
  double test_accuracy = kUnknownMetric;
};

class Progress {
 public:
  virtual ~Progress() = default;

  virtual void OnStep(const StepReport& report) = 0;
  virtual void OnEpochEnd(const EpochReport& report) = 0;
  // One line of news, such as a saved checkpoint.
  virtual void OnMessage(std::string_view message) = 0;
  // The run is over, or is about to print something else: the line is the caller's again.
  virtual void OnEnd() = 0;
};

// Time is given from outside, so that tests need not wait.
using ProgressClock = std::function<std::chrono::steady_clock::time_point()>;
ProgressClock SteadyClock();

// A bar on the last line, redrawn at most ten times a second; the line of an epoch replaces it.
// `width` is asked for the columns before each drawing, so that a resized window is noticed.
std::unique_ptr<Progress> MakeTerminalProgress(std::ostream& stream, std::function<int()> width,
                                               ProgressClock clock);

// When MakeLineProgress writes a line: every `every_steps` steps of the run, or, if that is 0, for
// the first step and then whenever `every_seconds` have passed since the last line.
struct LineOptions {
  int64_t every_steps = 0;
  double every_seconds = 5;
};

// Besides, one line per epoch and one per message.
std::unique_ptr<Progress> MakeLineProgress(std::ostream& stream, const LineOptions& options,
                                           ProgressClock clock);

// Says nothing.
std::unique_ptr<Progress> MakeQuietProgress();

}  // namespace lockstep::observe
