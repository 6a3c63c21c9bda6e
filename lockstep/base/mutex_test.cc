#include "lockstep/base/mutex.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace lockstep {
namespace {

class Counter {
 public:
  void Increment() {
    const MutexLock lock(mu_);
    ++count_;
    changed_.NotifyAll();
  }

  // False if the count has not reached `target` by the deadline.
  bool WaitFor(int target, const Deadline& deadline) {
    const MutexLock lock(mu_);
    while (count_ < target) {
      if (!changed_.WaitUntil(mu_, deadline)) {
        return false;
      }
    }
    return true;
  }

 private:
  Mutex mu_;
  CondVar changed_;
  int count_ LS_GUARDED_BY(mu_) = 0;
};

TEST(MutexTest, GuardsAndWakesAcrossThreads) {
  constexpr int kThreads = 4;
  constexpr int kIncrements = 1000;
  Counter counter;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&counter] {
      for (int j = 0; j < kIncrements; ++j) {
        counter.Increment();
      }
    });
  }
  EXPECT_TRUE(
      counter.WaitFor(kThreads * kIncrements, Deadline::After(std::chrono::milliseconds(30000))));
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_FALSE(counter.WaitFor(kThreads * kIncrements + 1, Deadline::After({})));
}

TEST(CondVarTest, TheDeadlineEndsAWaitAndTheMutexIsHeldAgain) {
  Mutex mu;
  CondVar never;
  const Deadline deadline = Deadline::After(std::chrono::milliseconds(5));
  mu.Lock();
  while (never.WaitUntil(mu, deadline)) {
  }
  EXPECT_TRUE(deadline.expired());
  mu.Unlock();
}

TEST(CondVarTest, AnInfiniteWaitEndsWithTheNotification) {
  Counter counter;
  std::thread other([&counter] { counter.Increment(); });
  EXPECT_TRUE(counter.WaitFor(1, Deadline::Infinite()));
  other.join();
}

}  // namespace
}  // namespace lockstep
