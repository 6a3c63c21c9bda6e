#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "lockstep/observe/progress.h"

namespace lockstep::observe {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What a terminal of unlimited height shows: \r goes back to the first column.
std::vector<std::string> Screen(const std::string& output) {
  std::vector<std::string> lines(1);
  size_t column = 0;
  for (const char c : output) {
    if (c == '\n') {
      lines.emplace_back();
      column = 0;
    } else if (c == '\r') {
      column = 0;
    } else {
      lines.back().resize(std::max(lines.back().size(), column + 1), ' ');
      lines.back()[column++] = c;
    }
  }
  for (std::string& line : lines) {
    line.erase(line.find_last_not_of(' ') + 1);
  }
  return lines;
}

class TerminalProgressTest : public ::testing::Test {
 protected:
  std::unique_ptr<Progress> Make() {
    return MakeTerminalProgress(
        out_, [this] { return width_; }, [this] { return now_; });
  }

  // Step `step` of the second of five epochs of 125 steps, `passed` after the one before.
  StepReport Step(int64_t step, milliseconds passed) {
    now_ += passed;
    return {.epoch = 1,
            .epochs = 5,
            .step = step,
            .steps = 125,
            .run_step = 125 + step,
            .run_steps = 625,
            .samples = 64,
            .loss = 0.4321,
            .accuracy = 0.875};
  }

  size_t Drawings() const {
    const std::string text = out_.str();
    return static_cast<size_t>(std::count(text.begin(), text.end(), '\r'));
  }

  std::ostringstream out_;
  int width_ = 120;
  std::chrono::steady_clock::time_point now_;
};

TEST_F(TerminalProgressTest, DrawsABar) {
  const auto progress = Make();
  progress->OnStep(Step(24, milliseconds(0)));
  progress->OnStep(Step(25, milliseconds(100)));
  EXPECT_THAT(Screen(out_.str()),
              ElementsAre("epoch 2/5  step 25/125  [=======>                              ]  loss "
                          "0.4321  acc 0.8750  640 samples/s  ETA 48s"));
}

TEST_F(TerminalProgressTest, RedrawsAtMostTenTimesASecond) {
  const auto progress = Make();
  for (int64_t step = 1; step <= 100; ++step) {
    progress->OnStep(Step(step, milliseconds(30)));
  }
  // 3 seconds, and every fourth step is the first that comes 100 ms or more after a drawing.
  EXPECT_EQ(Drawings(), 25U);
}

TEST_F(TerminalProgressTest, FitsEveryWidth) {
  for (width_ = 1; width_ < 200; ++width_) {
    out_.str("");
    const auto progress = Make();
    progress->OnStep(Step(24, milliseconds(0)));
    progress->OnStep(Step(25, milliseconds(100)));
    const std::string line = Screen(out_.str())[0];
    ASSERT_LE(line.size(), static_cast<size_t>(std::max(1, width_ - 1)));
    if (width_ > 40) {
      EXPECT_THAT(line, HasSubstr("loss 0.4321"));
      EXPECT_THAT(line, HasSubstr("step 25/125"));
    }
  }
}

TEST_F(TerminalProgressTest, AnUnknownWidthIsTakenAsEighty) {
  width_ = 0;
  const auto progress = Make();
  progress->OnStep(Step(25, milliseconds(0)));
  const std::string line = Screen(out_.str())[0];
  EXPECT_GT(line.size(), 60U);
  EXPECT_LE(line.size(), 79U);
}

TEST_F(TerminalProgressTest, ShorterLinesEraseLongerOnes) {
  const auto progress = Make();
  progress->OnStep(Step(24, milliseconds(0)));
  StepReport shorter = Step(25, milliseconds(100));
  shorter.steps = 0;
  progress->OnStep(shorter);
  EXPECT_THAT(Screen(out_.str()),
              ElementsAre("epoch 2/5  step 25  loss 0.4321  acc 0.8750  640 samples/s  ETA 48s"));
  progress->OnMessage("short");
  EXPECT_EQ(Screen(out_.str())[0], "short");
}

TEST_F(TerminalProgressTest, EpochsAndMessagesStayAboveTheBar) {
  const auto progress = Make();
  progress->OnStep(Step(1, milliseconds(0)));
  progress->OnMessage("saved step 126");
  progress->OnStep(Step(2, milliseconds(100)));
  progress->OnEpochEnd({.epoch = 1, .epochs = 5, .samples = 8000, .seconds = 10, .loss = 0.5});
  StepReport next = Step(1, milliseconds(1));
  next.epoch = 2;
  progress->OnStep(next);
  progress->OnEnd();
  const std::vector<std::string> screen = Screen(out_.str());
  ASSERT_EQ(screen.size(), 4U);
  EXPECT_EQ(screen[0], "saved step 126");
  EXPECT_EQ(screen[1], "epoch 2/5: loss 0.5000, 8000 samples in 10s (800 samples/s)");
  EXPECT_THAT(screen[2], HasSubstr("epoch 3/5  step 1/125"));
  EXPECT_EQ(screen[3], "");
}

TEST_F(TerminalProgressTest, TheEndShowsTheLastStep) {
  const auto progress = Make();
  progress->OnStep(Step(1, milliseconds(0)));
  progress->OnStep(Step(2, milliseconds(1)));
  progress->OnEnd();
  progress->OnEnd();
  const std::vector<std::string> screen = Screen(out_.str());
  ASSERT_EQ(screen.size(), 2U);
  EXPECT_THAT(screen[0], HasSubstr("step 2/125"));
}

TEST_F(TerminalProgressTest, UnknownTotalsHaveNoBarAndNoEnd) {
  const auto progress = Make();
  progress->OnStep({.step = 1, .run_step = 1, .samples = 1, .loss = 1});
  now_ += milliseconds(100);
  progress->OnStep({.step = 2, .run_step = 2, .samples = 1, .loss = 1});
  EXPECT_THAT(Screen(out_.str()), ElementsAre("epoch 1  step 2  loss 1.0000  10.0 samples/s"));
}

}  // namespace
}  // namespace lockstep::observe
