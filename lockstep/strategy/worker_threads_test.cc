#include "lockstep/strategy/worker_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace lockstep::strategy {
namespace {

TEST(WorkerThreadsTest, EveryNumberRunsOnceOnAThreadOfItsOwn) {
  WorkerThreads threads(4);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::thread::id> ids(4);
    std::atomic<int> calls{0};
    ASSERT_TRUE(threads
                    .Run([&](int i) {
                      ids[static_cast<size_t>(i)] = std::this_thread::get_id();
                      ++calls;
                      return OkStatus();
                    })
                    .ok());
    EXPECT_EQ(calls, 4);
    EXPECT_EQ(ids[0], std::this_thread::get_id());
    for (size_t i = 1; i < ids.size(); ++i) {
      EXPECT_NE(ids[i], ids[0]);
      EXPECT_NE(ids[i], ids[i % 3 + 1]);
    }
  }
}

TEST(WorkerThreadsTest, TheErrorOfTheLowestNumberCounts) {
  WorkerThreads threads(3);
  const Status status = threads.Run(
      [](int i) { return i == 0 ? OkStatus() : Internal("error of " + std::to_string(i)); });
  EXPECT_EQ(status.message(), "error of 1");
  // The next call starts afresh.
  EXPECT_TRUE(threads.Run([](int) { return OkStatus(); }).ok());
}

TEST(WorkerThreadsTest, OneThreadIsTheCaller) {
  WorkerThreads threads(1);
  EXPECT_EQ(threads.Run([](int i) { return i == 0 ? OkStatus() : Internal("?"); }).code(),
            StatusCode::kOk);
}

}  // namespace
}  // namespace lockstep::strategy
