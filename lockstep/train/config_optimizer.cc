#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>

#include "lockstep/base/counted.h"
#include "lockstep/train/config_reader.h"

namespace lockstep::train {
namespace {

constexpr std::array<std::string_view, 9> kOptimizers = {
    "sgd", "momentum", "nesterov", "adam", "adamw", "rmsprop", "adagrad", "lars", "lamb"};

constexpr std::array<std::string_view, 5> kSchedules = {"constant", "piecewise", "cosine",
                                                        "polynomial", "exponential"};

constexpr IntRange kScheduleSteps = {1, 1'000'000'000'000};

// Whether a key has an effect: the name of its kind must be among `users`; otherwise it is refused.
class Applicability {
 public:
  Applicability(SectionReader& reader, std::string_view what, const std::string& name)
      : reader_(reader), what_(what), name_(name) {}

  bool Check(std::string_view key, std::initializer_list<std::string_view> users) {
    if (std::find(users.begin(), users.end(), name_) != users.end()) {
      return true;
    }
    reader_.Refuse(key, fmt::format("has no effect for {} = '{}', only for {}", what_, name_,
                                    fmt::join(users, ", ")));
    return false;
  }

 private:
  SectionReader& reader_;
  std::string_view what_;
  const std::string& name_;
};

void ReadPiecewise(SectionReader& reader, ScheduleConfig& schedule) {
  reader.Require("boundaries", " for a piecewise schedule");
  reader.Require("values", " for a piecewise schedule");
  reader.Ints("boundaries", kScheduleSteps, schedule.boundaries);
  reader.Reals("values", kNotNegative, schedule.values);
  const auto disorder = std::adjacent_find(schedule.boundaries.begin(), schedule.boundaries.end(),
                                           [](int64_t a, int64_t b) { return a >= b; });
  if (disorder != schedule.boundaries.end()) {
    reader.FailAt("boundaries", fmt::format("found {} before {}, allowed are increasing steps",
                                            *disorder, *(disorder + 1)));
  }
  if (schedule.boundaries.empty()) {
    reader.FailAt("boundaries", "found none, expected at least one");
  }
  if (schedule.values.size() != schedule.boundaries.size() + 1) {
    reader.FailAt(
        "values",
        fmt::format("found {} for {}, expected {}", Counted(schedule.values.size(), "value"),
                    Counted(schedule.boundaries.size(), "boundary", "boundaries"),
                    schedule.boundaries.size() + 1));
  }
}

void ReadSchedule(SectionReader& reader, ScheduleConfig& schedule) {
  reader.Choice("name", kSchedules, schedule.name);
  Applicability applies(reader, "optimizer.schedule.name", schedule.name);
  if (applies.Check("boundaries", {"piecewise"}) && applies.Check("values", {"piecewise"})) {
    ReadPiecewise(reader, schedule);
  } else {
    applies.Check("values", {"piecewise"});
  }
  if (applies.Check("decay_steps", {"cosine", "polynomial", "exponential"})) {
    reader.Int("decay_steps", kScheduleSteps, schedule.decay_steps);
  }
  if (applies.Check("decay_rate", {"exponential"})) {
    reader.Real("decay_rate", kUpToOne, schedule.decay_rate);
    reader.Require("decay_rate", " for an exponential schedule");
    reader.Require("decay_steps", " for an exponential schedule");
  }
  if (applies.Check("staircase", {"exponential"})) {
    reader.Bool("staircase", schedule.staircase);
  }
  if (applies.Check("power", {"polynomial"})) {
    reader.Real("power", kPositive, schedule.power);
  }
  if (applies.Check("end_learning_rate", {"cosine", "polynomial"})) {
    reader.Real("end_learning_rate", kNotNegative, schedule.end_learning_rate);
  }
  reader.Int("warmup_steps", {0, kScheduleSteps.high}, schedule.warmup_steps);
  reader.Finish();
}

// The numbers that only some optimizers use.
void ReadHyperparameters(SectionReader& reader, OptimizerConfig& optimizer) {
  Applicability applies(reader, "optimizer.name", optimizer.name);
  if (applies.Check("momentum", {"momentum", "lars", "rmsprop"})) {
    optimizer.momentum = optimizer.name == "rmsprop" ? 0.0 : 0.9;
    reader.Real("momentum", kBelowOne, optimizer.momentum);
  }
  if (applies.Check("nesterov", {"momentum"})) {
    reader.Bool("nesterov", optimizer.nesterov);
  }
  if (applies.Check("beta1", {"adam", "adamw", "lamb"})) {
    reader.Real("beta1", kBelowOne, optimizer.beta1);
  }
  if (applies.Check("beta2", {"adam", "adamw", "lamb"})) {
    reader.Real("beta2", kBelowOne, optimizer.beta2);
  }
  if (applies.Check("rho", {"rmsprop"})) {
    reader.Real("rho", kBelowOne, optimizer.rho);
  }
  if (applies.Check("epsilon", {"adam", "adamw", "rmsprop", "adagrad", "lars", "lamb"})) {
    optimizer.epsilon = optimizer.name == "lamb" ? 1e-6 : 1e-7;
    reader.Real("epsilon", kPositive, optimizer.epsilon);
  }
  if (applies.Check("centered", {"rmsprop"})) {
    reader.Bool("centered", optimizer.centered);
  }
  if (applies.Check("initial_accumulator", {"adagrad"})) {
    reader.Real("initial_accumulator", kNotNegative, optimizer.initial_accumulator);
  }
  if (applies.Check("trust_coefficient", {"lars"})) {
    reader.Real("trust_coefficient", kPositive, optimizer.trust_coefficient);
  }
  if (applies.Check("weight_decay", {"adamw", "lars", "lamb"})) {
    reader.Real("weight_decay", kNotNegative, optimizer.weight_decay);
  }
  if (applies.Check("l2", {"sgd", "momentum", "adam", "adamw", "rmsprop", "adagrad"})) {
    reader.Real("l2", kNotNegative, optimizer.l2);
  }
}

}  // namespace

std::span<const std::string_view> OptimizerNames() {
  return kOptimizers;
}

void ReadOptimizer(SectionReader& reader, ConfigContext& context, OptimizerConfig& optimizer) {
  reader.Choice("name", kOptimizers, optimizer.name);
  if (optimizer.name == "nesterov") {
    optimizer.name = "momentum";
    optimizer.nesterov = true;
    reader.Refuse("nesterov",
                  "has no effect for optimizer.name = 'nesterov', which says it already");
  }
  ReadHyperparameters(reader, optimizer);
  if (reader.Has("weight_decay") || reader.Has("l2")) {
    reader.Texts("decay_exclude", optimizer.decay_exclude);
  } else {
    reader.Refuse("decay_exclude", "has no effect without weight_decay or l2");
  }
  SectionReader schedule(reader.Table("schedule"), "optimizer.schedule", context);
  ReadSchedule(schedule, optimizer.schedule);
  if (optimizer.schedule.name == "piecewise") {
    reader.Refuse("learning_rate",
                  "has no effect with a piecewise schedule, which has its own values");
  } else {
    reader.Require("learning_rate");
    reader.Real("learning_rate", kNotNegative, optimizer.learning_rate);
  }
  reader.Finish();
}

}  // namespace lockstep::train
