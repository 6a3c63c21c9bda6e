#include "lockstep/observe/internal/progress_text.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lockstep::observe::internal {
namespace {

using std::chrono::milliseconds;

TEST(RateMeterTest, TheFirstStepOnlyStartsTheClock) {
  RateMeter meter;
  std::chrono::steady_clock::time_point now;
  meter.Add(1000, now);
  EXPECT_TRUE(std::isnan(meter.samples_per_second()));
  EXPECT_TRUE(std::isnan(meter.steps_per_second()));
  for (int i = 0; i < 3; ++i) {
    now += milliseconds(20);
    meter.Add(10, now);
    EXPECT_NEAR(meter.samples_per_second(), 500, 2);
    EXPECT_NEAR(meter.steps_per_second(), 50, 0.2);
  }
}

TEST(RateMeterTest, FollowsAChangeOfSpeed) {
  RateMeter meter;
  std::chrono::steady_clock::time_point now;
  for (int i = 0; i < 1000; ++i) {
    meter.Add(10, now += milliseconds(100));
  }
  EXPECT_NEAR(meter.samples_per_second(), 100, 2);
  // After one smoothing time the new speed has the weight 1 - 1/e.
  for (int i = 0; i < 100; ++i) {
    meter.Add(10, now += milliseconds(50));
  }
  EXPECT_NEAR(meter.samples_per_second(), 200 - 100 / std::exp(1.0), 3);
}

TEST(RateMeterTest, ATimeThatStandsStillIsNotDividedBy) {
  RateMeter meter;
  meter.Add(10, {});
  meter.Add(10, {});
  EXPECT_TRUE(std::isnan(meter.samples_per_second()));
}

TEST(ProgressTextTest, Metrics) {
  EXPECT_EQ(FormatMetric(2.302585), "2.3026");
  EXPECT_EQ(FormatMetric(0), "0.0000");
  EXPECT_EQ(FormatMetric(0.00012345), "1.234e-04");
  EXPECT_EQ(FormatMetric(-1234567), "-1.235e+06");
  EXPECT_EQ(FormatMetric(kUnknownMetric), "nan");
  EXPECT_EQ(FormatMetric(std::numeric_limits<double>::infinity()), "inf");
}

TEST(ProgressTextTest, RateEtaAndCount) {
  EXPECT_EQ(FormatRate(16.44), "16.4 samples/s");
  EXPECT_EQ(FormatRate(5120.4), "5120 samples/s");
  EXPECT_EQ(FormatRate(kUnknownMetric), "");
  EXPECT_EQ(FormatEta({.run_step = 100, .run_steps = 700}, 10), "ETA 1m00s");
  EXPECT_EQ(FormatEta({.run_step = 100}, 10), "");
  EXPECT_EQ(FormatEta({.run_step = 100, .run_steps = 700}, kUnknownMetric), "");
  EXPECT_EQ(FormatEta({.run_step = 9, .run_steps = 7}, 10), "ETA 0.0s");
  EXPECT_EQ(FormatCount("step", 3, 125), "step 3/125");
  EXPECT_EQ(FormatCount("step", 3, 0), "step 3");
}

TEST(ProgressTextTest, Epochs) {
  EXPECT_EQ(FormatEpoch({.epoch = 1,
                         .epochs = 5,
                         .samples = 8000,
                         .seconds = 1.6,
                         .loss = 0.1234,
                         .accuracy = 0.9671,
                         .test_loss = 0.2,
                         .test_accuracy = 0.966}),
            "epoch 2/5: loss 0.1234, accuracy 0.9671, test loss 0.2000, test accuracy 0.9660, 8000 "
            "samples in 1.6s (5000 samples/s)");
  // A loss that is not a number is news, a metric that was not computed is not.
  EXPECT_EQ(FormatEpoch({.samples = 10}), "epoch 1: loss nan, 10 samples in 0.0s");
}

}  // namespace
}  // namespace lockstep::observe::internal
