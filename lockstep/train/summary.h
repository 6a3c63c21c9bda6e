// The summary of a run: one JSON object whose keys are a contract that scripts rely on.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::train {

// Each field is written under its own name. Real numbers that are not known are NaN and written as
// null; optional fields that have no value are left out.
struct Summary {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

  std::string model;
  std::string strategy;
  int64_t workers = 1;
  int64_t ps = 0;
  // Over all workers.
  int64_t devices = 1;
  int64_t replicas = 1;
  int64_t global_batch = 0;
  int64_t steps = 0;
  // Begun, the last one perhaps not finished.
  int64_t epochs = 0;
  // Samples that were trained on, repetitions included.
  int64_t examples = 0;
  double final_loss = kUnknown;
  // Shares in [0, 1].
  double train_accuracy = kUnknown;
  double test_accuracy = kUnknown;
  double examples_per_second = kUnknown;
  double step_ms_p50 = kUnknown;
  double step_ms_p95 = kUnknown;
  // From the start of the process to the end of the first step.
  double first_step_seconds = kUnknown;
  double wall_seconds = kUnknown;
  uint64_t peak_rss_bytes = 0;
  // 64 hexadecimal digits.
  std::string params_sha256;
  std::string state_sha256;
  int64_t restarts = 0;

  // Of the strategies that have them.
  std::optional<int64_t> applied_gradients;
  std::optional<int64_t> dropped_gradients;
  std::optional<double> staleness_mean;
  std::optional<int64_t> staleness_max;
  std::optional<int64_t> sync_rounds;
};

// The JSON object, indented, with a line end behind it.
std::string SummaryJson(const Summary& summary);

// Whether the text is a summary, of this version or another.
bool IsSummary(std::string_view text);

// The value below which `percent` in [0, 100] of the values lie, interpolated linearly between
// neighbours (NumPy's default). NaN if there are none.
double Percentile(std::span<const double> values, double percent);

// The most memory that this process has held so far (VmHWM; unlike getrusage it does not count what
// the parent held before exec), or 0 where the system does not say.
uint64_t PeakRssBytes();

}  // namespace lockstep::train
