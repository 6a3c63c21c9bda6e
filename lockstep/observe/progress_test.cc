#include "lockstep/observe/progress.h"

#include <gtest/gtest.h>

#include <sstream>

namespace lockstep::observe {
namespace {

using std::chrono::milliseconds;

class LineProgressTest : public ::testing::Test {
 protected:
  ProgressClock Clock() {
    return [this] { return now_; };
  }

  // The next step of a run of 2 epochs of 8 steps of 10 samples each, `passed` later.
  StepReport Next(milliseconds passed) {
    now_ += passed;
    ++run_step_;
    return {.epoch = (run_step_ - 1) / 8,
            .epochs = 2,
            .step = (run_step_ - 1) % 8 + 1,
            .steps = 8,
            .run_step = run_step_,
            .run_steps = 16,
            .samples = 10,
            .loss = 0.5};
  }

  std::ostringstream out_;
  std::chrono::steady_clock::time_point now_;
  int64_t run_step_ = 0;
};

TEST_F(LineProgressTest, EverySoManySteps) {
  const auto progress = MakeLineProgress(out_, {.every_steps = 4}, Clock());
  for (int i = 0; i < 9; ++i) {
    StepReport report = Next(milliseconds(1000));
    report.accuracy = 0.25;
    progress->OnStep(report);
  }
  EXPECT_EQ(out_.str(),
            "epoch 1/2 step 4/8: loss 0.5000, accuracy 0.2500, 10.0 samples/s, ETA 12s\n"
            "epoch 1/2 step 8/8: loss 0.5000, accuracy 0.2500, 10.0 samples/s, ETA 8.0s\n");
}

TEST_F(LineProgressTest, TheFirstStepAndThenEverySoManySeconds) {
  const auto progress = MakeLineProgress(out_, {.every_seconds = 3}, Clock());
  for (int i = 0; i < 5; ++i) {
    progress->OnStep(Next(milliseconds(2000)));
  }
  EXPECT_EQ(out_.str(),
            "epoch 1/2 step 1/8: loss 0.5000\n"
            "epoch 1/2 step 3/8: loss 0.5000, 5.0 samples/s, ETA 26s\n"
            "epoch 1/2 step 5/8: loss 0.5000, 5.0 samples/s, ETA 22s\n");
}

TEST_F(LineProgressTest, UnknownTotalsAreLeftOut) {
  const auto progress = MakeLineProgress(out_, {.every_steps = 1}, Clock());
  progress->OnStep({.epoch = 2, .step = 7, .run_step = 7, .samples = 1, .loss = 1});
  EXPECT_EQ(out_.str(), "epoch 3 step 7: loss 1.0000\n");
}

TEST_F(LineProgressTest, EpochsAndMessagesAreLines) {
  const auto progress = MakeLineProgress(out_, {}, Clock());
  progress->OnEpochEnd({.epoch = 0, .epochs = 2, .samples = 80, .seconds = 8, .loss = 0.25});
  progress->OnMessage("saved step 8");
  progress->OnEnd();
  EXPECT_EQ(out_.str(),
            "epoch 1/2: loss 0.2500, 80 samples in 8.0s (10.0 samples/s)\nsaved step 8\n");
}

TEST(QuietProgressTest, AcceptsEverything) {
  const auto progress = MakeQuietProgress();
  progress->OnStep({});
  progress->OnEpochEnd({});
  progress->OnMessage("x");
  progress->OnEnd();
}

TEST(SteadyClockTest, IsTheSteadyClock) {
  const auto before = std::chrono::steady_clock::now();
  const auto between = SteadyClock()();
  EXPECT_LE(before, between);
  EXPECT_LE(between, std::chrono::steady_clock::now());
}

}  // namespace
}  // namespace lockstep::observe
