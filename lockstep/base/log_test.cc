#include "lockstep/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <thread>
#include <vector>

namespace lockstep {
namespace {

using ::testing::MatchesRegex;

TEST(LogTest, WritesTimeLevelAndMessage) {
  std::ostringstream out;
  Log log(out, LogLevel::kInfo);
  log.Warning("disk {} is nearly full");
  EXPECT_THAT(out.str(),
              MatchesRegex("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z W "
                           "disk \\{\\} is nearly full\n"));
}

TEST(LogTest, LeavesOutWhatIsBelowTheLevel) {
  std::ostringstream out;
  Log log(out, LogLevel::kWarning);
  log.Debug("a");
  log.Info("b");
  EXPECT_EQ(out.str(), "");
  EXPECT_FALSE(log.enabled(LogLevel::kInfo));
  EXPECT_TRUE(log.enabled(LogLevel::kWarning));
  log.Error("c");
  EXPECT_THAT(out.str(), MatchesRegex(".* E c\n"));
}

TEST(LogTest, AMessageIsOneLine) {
  std::ostringstream out;
  Log log(out, LogLevel::kDebug);
  log.Info("first\nsecond\x1b[31m\r");
  EXPECT_THAT(out.str(), MatchesRegex(".* I first\\\\nsecond\\\\x1b\\[31m\\\\x0d\n"));
}

TEST(LogTest, LinesOfThreadsDoNotMix) {
  std::ostringstream out;
  Log log(out, LogLevel::kInfo);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&log] {
      for (int j = 0; j < 100; ++j) {
        log.Info("abcdefghij");
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  std::istringstream lines(out.str());
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    EXPECT_THAT(line, MatchesRegex(".{24} I abcdefghij"));
  }
  EXPECT_EQ(count, 400);
}

}  // namespace
}  // namespace lockstep
