#include "lockstep/train/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lockstep::train {
namespace {

double Piecewise(const ScheduleConfig& schedule, double step) {
  const auto passed =
      std::count_if(schedule.boundaries.begin(), schedule.boundaries.end(),
                    [&](int64_t boundary) { return step > static_cast<double>(boundary); });
  return schedule.values[static_cast<size_t>(passed)];
}

Result<double> DecaySteps(const ScheduleConfig& schedule, int64_t total_steps) {
  if (schedule.decay_steps > 0) {
    return static_cast<double>(schedule.decay_steps);
  }
  if (total_steps <= 0) {
    return InvalidArgument(fmt::format(
        "optimizer.schedule: a '{}' schedule needs decay_steps, as the length of the run is not "
        "known",
        schedule.name));
  }
  // A run that ends within its warm-up does not get here.
  return static_cast<double>(std::max<int64_t>(total_steps - schedule.warmup_steps, 1));
}

}  // namespace

Result<double> LearningRateAt(const OptimizerConfig& optimizer, int64_t step, int64_t total_steps) {
  const ScheduleConfig& schedule = optimizer.schedule;
  const double base =
      schedule.name == "piecewise" ? schedule.values.front() : optimizer.learning_rate;
  if (step < schedule.warmup_steps) {
    return base * static_cast<double>(step + 1) / static_cast<double>(schedule.warmup_steps);
  }
  const auto at = static_cast<double>(step - schedule.warmup_steps);
  if (schedule.name == "constant") {
    return base;
  }
  if (schedule.name == "piecewise") {
    return Piecewise(schedule, at);
  }
  LS_ASSIGN_OR_RETURN(const double decay_steps, DecaySteps(schedule, total_steps));
  if (schedule.name == "exponential") {
    const double exponent = at / decay_steps;
    return base *
           std::pow(schedule.decay_rate, schedule.staircase ? std::floor(exponent) : exponent);
  }
  const double share = std::min(at / decay_steps, 1.0);
  const double end = schedule.end_learning_rate;
  if (schedule.name == "cosine") {
    return end + (base - end) * (1.0 + std::cos(std::numbers::pi * share)) / 2.0;
  }
  return end + (base - end) * std::pow(1.0 - share, schedule.power);
}

}  // namespace lockstep::train
