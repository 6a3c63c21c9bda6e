#include "lockstep/exec/local_rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "lockstep/exec/cancellation.h"
#include "lockstep/exec/internal/step_threads.h"
#include "lockstep/exec/step_status.h"

namespace lockstep::exec {
namespace {

using ::testing::HasSubstr;

Tensor Number(float value) {
  return Tensor::Scalar<float>(value).value();
}

// What a receive was given.
struct Received {
  int calls = 0;
  Status status;
  Tensor tensor;
};

Rendezvous::RecvDone Into(Received& received) {
  return [&received](const Status& status, Tensor tensor) {
    ++received.calls;
    received.status = status;
    received.tensor = std::move(tensor);
  };
}

class LocalRendezvousTest : public ::testing::Test {
 protected:
  Status Send(const TransferKey& key, const Tensor& tensor) {
    Status result = Internal("not called");
    rendezvous_.Send(kThisTask, key, tensor, [&](const Status& status) { result = status; });
    return result;
  }

  void Recv(const TransferKey& key, Received& received) {
    rendezvous_.Recv(kThisTask, key, Tensor(), Into(received));
  }

  LocalRendezvous rendezvous_;
};

TEST_F(LocalRendezvousTest, EitherSideMayComeFirst) {
  const Tensor one = Number(1);
  Received first;
  ASSERT_TRUE(Send({1, 1, 0}, one).ok());
  Recv({1, 1, 0}, first);
  EXPECT_EQ(first.tensor.data(), one.data()) << "shared, not copied";
  Received second;
  Recv({1, 1, 1}, second);
  EXPECT_EQ(second.calls, 0);
  ASSERT_TRUE(Send({1, 1, 1}, one).ok());
  EXPECT_EQ(second.calls, 1);
  EXPECT_EQ(second.tensor.data(), one.data());
}

TEST_F(LocalRendezvousTest, KeysAreApart) {
  ASSERT_TRUE(Send({1, 1, 0}, Number(1)).ok());
  ASSERT_TRUE(Send({2, 1, 0}, Number(2)).ok());
  ASSERT_TRUE(Send({1, 2, 0}, Number(3)).ok());
  Received received;
  Recv({2, 1, 0}, received);
  EXPECT_EQ(received.tensor.values<float>()[0], 2);
  Recv({1, 2, 0}, received);
  EXPECT_EQ(received.tensor.values<float>()[0], 3);
  EXPECT_EQ(rendezvous_.num_steps(), 3U);
  rendezvous_.Cleanup(1, 1);
  rendezvous_.Cleanup(1, 2);
  rendezvous_.Cleanup(2, 1);
  rendezvous_.Cleanup(9, 9);
  EXPECT_EQ(rendezvous_.num_steps(), 0U);
}

TEST_F(LocalRendezvousTest, AKeyIsUsedOnce) {
  ASSERT_TRUE(Send({1, 1, 0}, Number(1)).ok());
  EXPECT_EQ(Send({1, 1, 0}, Number(1)).code(), StatusCode::kAlreadyExists);
  Received first;
  Received second;
  Recv({1, 1, 5}, first);
  Recv({1, 1, 5}, second);
  EXPECT_EQ(first.calls, 0);
  EXPECT_THAT(second.status.message(), HasSubstr("transfer 5 of step 1 is received twice"));
  rendezvous_.Abort(1, 1, Cancelled("over"));
  EXPECT_EQ(first.calls, 1);
}

TEST_F(LocalRendezvousTest, AbortEndsWhatIsWaitingAndWhatComes) {
  Received waiting;
  Received other_step;
  Recv({1, 1, 0}, waiting);
  Recv({1, 2, 0}, other_step);
  rendezvous_.Abort(1, 1, Internal("first"));
  rendezvous_.Abort(1, 1, Internal("second"));
  EXPECT_EQ(waiting.calls, 1);
  EXPECT_EQ(waiting.status.message(), "first");
  EXPECT_EQ(other_step.calls, 0);
  Received late;
  Recv({1, 1, 3}, late);
  EXPECT_EQ(late.status.message(), "first");
  EXPECT_EQ(Send({1, 1, 4}, Number(1)).message(), "first");
  // The number may be used again after the cleanup.
  rendezvous_.Cleanup(1, 1);
  EXPECT_TRUE(Send({1, 1, 0}, Number(1)).ok());
  rendezvous_.Abort(1, 2, Cancelled("over"));
}

TEST_F(LocalRendezvousTest, ManyThreads) {
  constexpr int kThreads = 4;
  constexpr int kItems = 500;
  std::vector<std::thread> threads;
  std::vector<std::vector<Received>> received(kThreads, std::vector<Received>(kItems));
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kItems; ++i) {
        const auto item = static_cast<uint64_t>(t * kItems + i);
        rendezvous_.Send(kThisTask, {1, 1, item}, Number(static_cast<float>(item)),
                         [](const Status& status) { ASSERT_TRUE(status.ok()); });
      }
    });
    threads.emplace_back([&, t] {
      for (int i = kItems - 1; i >= 0; --i) {
        const auto item = static_cast<uint64_t>(t * kItems + i);
        rendezvous_.Recv(kThisTask, {1, 1, item}, Tensor(),
                         Into(received[static_cast<size_t>(t)][static_cast<size_t>(i)]));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (int t = 0; t < kThreads; ++t) {
    for (int i = 0; i < kItems; ++i) {
      const Received& got = received[static_cast<size_t>(t)][static_cast<size_t>(i)];
      ASSERT_EQ(got.calls, 1);
      ASSERT_EQ(got.tensor.values<float>()[0], static_cast<float>(t * kItems + i));
    }
  }
}

TEST(StepStatusTest, TheCauseIsNotHidden) {
  StepStatus status;
  EXPECT_TRUE(status.Get().ok());
  status.Add(OkStatus());
  status.Add(Cancelled("stopped"));
  EXPECT_EQ(status.Get().code(), StatusCode::kCancelled);
  status.Add(OutOfRange("cause"));
  status.Add(Aborted("stopped"));
  status.Add(Internal("later"));
  EXPECT_EQ(status.Get().message(), "cause");
  EXPECT_TRUE(IsDerived(StoppedBecauseOf(status.Get())));
  EXPECT_THAT(StoppedBecauseOf(status.Get()).message(), HasSubstr("OUT_OF_RANGE: cause"));
  EXPECT_EQ(StoppedBecauseOf(Aborted("again")).message(), "again");
  EXPECT_EQ(status.Take().message(), "cause");
  EXPECT_TRUE(status.Get().ok());
}

TEST(CancellationTest, CallsBackOnce) {
  Cancellation cancellation;
  int calls = 0;
  int removed = 0;
  cancellation.AddCallback([&](const Status&) { ++calls; });
  cancellation.RemoveCallback(cancellation.AddCallback([&](const Status&) { ++removed; }));
  EXPECT_FALSE(cancellation.cancelled());
  cancellation.Cancel(Cancelled("by the user"));
  cancellation.Cancel(Internal("too late"));
  EXPECT_TRUE(cancellation.cancelled());
  EXPECT_EQ(cancellation.status().message(), "by the user");
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(removed, 0);
  cancellation.AddCallback([&](const Status& status) {
    ++calls;
    EXPECT_EQ(status.message(), "by the user");
  });
  EXPECT_EQ(calls, 2);
}

TEST(StepThreadsTest, EachWorkHasAThreadOfItsOwn) {
  Mutex mu;
  CondVar changed;
  int arrived = 0;
  StepThreads threads;
  // None of them ends before all have begun.
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(threads
                    .Start([&] {
                      const MutexLock lock(mu);
                      ++arrived;
                      changed.NotifyAll();
                      while (arrived < 3) {
                        changed.WaitUntil(mu, Deadline::Infinite());
                      }
                    })
                    .ok());
  }
  const MutexLock lock(mu);
  while (arrived < 3) {
    changed.WaitUntil(mu, Deadline::Infinite());
  }
}

}  // namespace
}  // namespace lockstep::exec
