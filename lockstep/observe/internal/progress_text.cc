#include "lockstep/observe/internal/progress_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lockstep/base/counted.h"
#include "lockstep/base/format_time.h"

namespace lockstep::observe::internal {
namespace {

constexpr double kSmoothingSeconds = 5;

void AppendMetric(std::string& text, std::string_view name, double value, bool show_nan) {
  if (!std::isnan(value) || show_nan) {
    text += fmt::format(", {} {}", name, FormatMetric(value));
  }
}

}  // namespace

void RateMeter::Add(int64_t samples, std::chrono::steady_clock::time_point now) {
  if (started_) {
    const double passed = std::max(0.0, std::chrono::duration<double>(now - last_).count());
    const double kept = std::exp(-passed / kSmoothingSeconds);
    samples_ = samples_ * kept + static_cast<double>(samples);
    steps_ = steps_ * kept + 1;
    seconds_ = seconds_ * kept + passed;
  }
  started_ = true;
  last_ = now;
}

double RateMeter::samples_per_second() const {
  return seconds_ > 0 ? samples_ / seconds_ : kUnknownMetric;
}

double RateMeter::steps_per_second() const {
  return seconds_ > 0 ? steps_ / seconds_ : kUnknownMetric;
}

std::string FormatMetric(double value) {
  const double size = std::abs(value);
  if (size == 0 || (size >= 1e-3 && size < 1e5) || !std::isfinite(value)) {
    return fmt::format("{:.4f}", value);
  }
  return fmt::format("{:.3e}", value);
}

std::string FormatRate(double samples_per_second) {
  if (!std::isfinite(samples_per_second)) {
    return "";
  }
  return samples_per_second < 100 ? fmt::format("{:.1f} samples/s", samples_per_second)
                                  : fmt::format("{:.0f} samples/s", samples_per_second);
}

std::string FormatEta(const StepReport& report, double steps_per_second) {
  if (report.run_steps <= 0 || !(steps_per_second > 0)) {
    return "";
  }
  const int64_t left = std::max<int64_t>(0, report.run_steps - report.run_step);
  return "ETA " + FormatDuration(static_cast<double>(left) / steps_per_second);
}

std::string FormatCount(std::string_view what, int64_t count, int64_t total) {
  return total > 0 ? fmt::format("{} {}/{}", what, count, total)
                   : fmt::format("{} {}", what, count);
}

std::string FormatEpoch(const EpochReport& report) {
  std::string text;
  AppendMetric(text, "loss", report.loss, /*show_nan=*/true);
  AppendMetric(text, "accuracy", report.accuracy, /*show_nan=*/false);
  AppendMetric(text, "test loss", report.test_loss, /*show_nan=*/false);
  AppendMetric(text, "test accuracy", report.test_accuracy, /*show_nan=*/false);
  text +=
      fmt::format(", {} in {}", Counted(report.samples, "sample"), FormatDuration(report.seconds));
  if (report.seconds > 0) {
    text += fmt::format(" ({})", FormatRate(static_cast<double>(report.samples) / report.seconds));
  }
  return fmt::format("{}:{}", FormatCount("epoch", report.epoch + 1, report.epochs),
                     text.substr(1));
}

}  // namespace lockstep::observe::internal
