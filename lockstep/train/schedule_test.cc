#include "lockstep/train/schedule.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "lockstep/op/testing/parity.h"

namespace lockstep::train {
namespace {

using op::testing::ParityCase;
using ::testing::HasSubstr;

OptimizerConfig WithSchedule(std::string name, double base) {
  OptimizerConfig config;
  config.learning_rate = base;
  config.schedule.name = std::move(name);
  return config;
}

double Rate(const OptimizerConfig& config, int64_t step, int64_t total = 0) {
  const Result<double> rate = LearningRateAt(config, step, total);
  EXPECT_TRUE(rate.ok()) << rate.status().ToString();
  return rate.ok() ? *rate : std::nan("");
}

// What a parity case calls its schedule, in our configuration.
OptimizerConfig ConfigOf(const ParityCase& c) {
  if (c.op == "PiecewiseConstant") {
    OptimizerConfig config = WithSchedule("piecewise", 0);
    config.schedule.boundaries = c.attrs.GetInts("boundaries");
    // Lists of reals are not among what is read from the file.
    config.schedule.values = {0.5, 0.25, 0.1};
    return config;
  }
  const double initial = c.attrs.GetFloat("initial");
  OptimizerConfig config = WithSchedule("", initial);
  config.schedule.decay_steps = c.attrs.GetInt("decay_steps");
  if (c.op == "Exponential") {
    config.schedule.name = "exponential";
    config.schedule.decay_rate = c.attrs.GetFloat("rate");
    config.schedule.staircase = c.attrs.GetBool("staircase");
  } else if (c.op == "Polynomial") {
    config.schedule.name = "polynomial";
    config.schedule.power = c.attrs.GetFloat("power");
    config.schedule.end_learning_rate = c.attrs.GetFloat("end");
  } else if (c.op == "Cosine") {
    config.schedule.name = "cosine";
    config.schedule.end_learning_rate = initial * c.attrs.GetFloat("alpha");
    if (c.attrs.Find("warmup_steps") != nullptr) {
      config.schedule.warmup_steps = c.attrs.GetInt("warmup_steps");
    }
  }
  return config;
}

TEST(ScheduleTest, AgreesWithTensorFlow) {
  const Result<std::vector<ParityCase>> cases =
      op::testing::LoadParityCases(std::string(LS_SOURCE_DIR) + "/tests/parity/schedules.json");
  ASSERT_TRUE(cases.ok()) << cases.status().ToString();
  int checked = 0;
  for (const ParityCase& c : *cases) {
    if (c.attrs.Find("cycle") != nullptr && c.attrs.GetBool("cycle")) {
      // We have no schedule that begins again.
      continue;
    }
    const OptimizerConfig config = ConfigOf(c);
    ASSERT_NE(config.schedule.name, "") << c.name << ": schedule " << c.op;
    const std::vector<double>& steps = c.Input("step").values;
    const std::vector<double>& rates = c.Output("learning_rate").values;
    for (size_t i = 0; i < steps.size(); ++i) {
      const auto step = static_cast<int64_t>(steps[i]);
      // Keras begins its warm-up with a rate of 0; ours never wastes a step.
      if (step >= config.schedule.warmup_steps) {
        // They are computed in float32, where 1 + cos loses digits near 0.
        EXPECT_NEAR(Rate(config, step), rates[i], 1e-6 * rates[i] + 1e-8)
            << c.name << " step " << step;
        ++checked;
      }
    }
  }
  EXPECT_GE(checked, 8 * 12 - 3);
}

TEST(ScheduleTest, ConstantIsTheBaseForEver) {
  const OptimizerConfig config = WithSchedule("constant", 0.25);
  EXPECT_EQ(Rate(config, 0), 0.25);
  EXPECT_EQ(Rate(config, 1'000'000'000'000), 0.25);
}

TEST(ScheduleTest, PiecewiseChangesBehindItsBoundary) {
  OptimizerConfig config = WithSchedule("piecewise", 0);
  config.schedule.boundaries = {2, 3};
  config.schedule.values = {4, 2, 1};
  EXPECT_EQ(Rate(config, 0), 4);
  EXPECT_EQ(Rate(config, 2), 4);
  EXPECT_EQ(Rate(config, 3), 2);
  EXPECT_EQ(Rate(config, 4), 1);
  EXPECT_EQ(Rate(config, 1000), 1);
}

TEST(ScheduleTest, WarmupRisesInEqualStepsAndReachesTheBase) {
  OptimizerConfig config = WithSchedule("constant", 0.8);
  config.schedule.warmup_steps = 4;
  EXPECT_DOUBLE_EQ(Rate(config, 0), 0.2);
  EXPECT_DOUBLE_EQ(Rate(config, 1), 0.4);
  EXPECT_DOUBLE_EQ(Rate(config, 2), 0.6);
  EXPECT_DOUBLE_EQ(Rate(config, 3), 0.8);
  EXPECT_DOUBLE_EQ(Rate(config, 4), 0.8);
}

TEST(ScheduleTest, TheScheduleCountsFromTheEndOfTheWarmup) {
  OptimizerConfig piecewise = WithSchedule("piecewise", 0);
  piecewise.schedule.boundaries = {1};
  piecewise.schedule.values = {0.5, 0.1};
  piecewise.schedule.warmup_steps = 2;
  EXPECT_DOUBLE_EQ(Rate(piecewise, 0), 0.25);
  EXPECT_DOUBLE_EQ(Rate(piecewise, 1), 0.5);
  EXPECT_DOUBLE_EQ(Rate(piecewise, 3), 0.5);
  EXPECT_DOUBLE_EQ(Rate(piecewise, 4), 0.1);

  OptimizerConfig halving = WithSchedule("exponential", 1);
  halving.schedule.decay_steps = 1;
  halving.schedule.decay_rate = 0.5;
  halving.schedule.warmup_steps = 1;
  EXPECT_DOUBLE_EQ(Rate(halving, 0), 1);
  EXPECT_DOUBLE_EQ(Rate(halving, 1), 1);
  EXPECT_DOUBLE_EQ(Rate(halving, 3), 0.25);
}

TEST(ScheduleTest, WithoutDecayStepsTheWholeRunBehindTheWarmupIsUsed) {
  for (const std::string name : {"cosine", "polynomial"}) {
    OptimizerConfig config = WithSchedule(name, 0.4);
    config.schedule.end_learning_rate = 0.1;
    config.schedule.warmup_steps = 10;
    EXPECT_DOUBLE_EQ(Rate(config, 10, 30), 0.4) << name;
    // Half-way both stand in the middle.
    EXPECT_NEAR(Rate(config, 20, 30), 0.25, 1e-12) << name;
    EXPECT_NEAR(Rate(config, 30, 30), 0.1, 1e-12) << name;
    EXPECT_NEAR(Rate(config, 500, 30), 0.1, 1e-12) << name;
  }
}

TEST(ScheduleTest, CosineWithTheHalfAngle) {
  OptimizerConfig config = WithSchedule("cosine", 1);
  config.schedule.decay_steps = 6;
  // (1 + cos(60 degrees)) / 2
  EXPECT_NEAR(Rate(config, 2), 0.75, 1e-12);
  EXPECT_NEAR(Rate(config, 6), 0, 1e-12);
}

TEST(ScheduleTest, ARunOfUnknownLengthNeedsDecaySteps) {
  const Result<double> rate = LearningRateAt(WithSchedule("cosine", 0.1), 0, 0);
  EXPECT_EQ(rate.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(rate.status().message(), HasSubstr("'cosine' schedule needs decay_steps"));
}

// A short trial of a long configuration.
TEST(ScheduleTest, ARunMayEndWithinItsWarmup) {
  OptimizerConfig config = WithSchedule("cosine", 0.1);
  config.schedule.warmup_steps = 10;
  EXPECT_DOUBLE_EQ(Rate(config, 0, 5), 0.01);
  EXPECT_DOUBLE_EQ(Rate(config, 4, 5), 0.05);
  EXPECT_DOUBLE_EQ(Rate(config, 9, 10), 0.1);
}

}  // namespace
}  // namespace lockstep::train
