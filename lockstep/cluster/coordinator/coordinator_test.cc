// The coordinator in virtual time: no clock, no thread, no network.
#include "lockstep/cluster/coordinator/coordinator.h"

#include <gtest/gtest.h>

#include <optional>

namespace lockstep::cluster {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kHeartbeat{1000};

class CoordinatorTest : public ::testing::Test {
 protected:
  CoordinatorTest()
      : cluster_(ClusterSpec::Create({{"ps", {"a:1"}}, {"worker", {"b:1", "c:1"}}}).value()),
        coordinator_(Coordinator::Create(cluster_, kHeartbeat, [this](const std::string& who) {
                       told_.push_back(who);
                     }).value()) {}

  // Milliseconds since the beginning of the test.
  Coordinator::Time At(int ms) const { return start_ + milliseconds(ms); }

  Deadline Until(int ms) const { return Deadline::At(At(ms)); }

  Registration Of(int number, uint64_t incarnation = 1) const {
    return {.task = {number, incarnation},
            .name = cluster_.tasks()[static_cast<size_t>(number)].id.ToString(),
            .fingerprint = cluster_.Fingerprint().value(),
            .cluster = cluster_.ToJson()};
  }

  void RegisterAll(int ms) {
    for (int number = 0; number < 3; ++number) {
      ASSERT_TRUE(coordinator_->Register(Of(number), At(ms)).ok());
    }
  }

  MemberState StateOf(int number) const {
    return coordinator_->view().members[static_cast<size_t>(number)].state;
  }

  // Far enough ahead that the real clock, which deadlines of the past are compared with, plays no
  // part.
  const Coordinator::Time start_ = Deadline::Clock::now() + std::chrono::hours(1);
  const ClusterSpec cluster_;
  std::vector<std::string> told_;
  const std::unique_ptr<Coordinator> coordinator_;
};

// A callback that remembers what it was given, and that it was called once.
struct Outcome {
  std::optional<Status> status;

  auto Callback() {
    return [this](const Status& result) {
      EXPECT_FALSE(status.has_value()) << "called twice";
      status = result;
    };
  }
};

TEST_F(CoordinatorTest, OtherClusterIsRefusedByName) {
  const ClusterSpec other =
      ClusterSpec::Create({{"ps", {"a:1"}}, {"worker", {"b:1", "d:1"}}}).value();
  Registration registration = Of(1);
  registration.fingerprint = other.Fingerprint().value();
  registration.cluster = other.ToJson();
  const Status status = coordinator_->Register(registration, At(0));
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("/job:worker/task:0"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("d:1"), std::string::npos) << status.message();
  EXPECT_EQ(StateOf(1), MemberState::kAbsent);
}

TEST_F(CoordinatorTest, SecondClaimantOfAnIndex) {
  ASSERT_TRUE(coordinator_->Register(Of(1, 7), At(0)).ok());
  EXPECT_TRUE(coordinator_->Register(Of(1, 7), At(1)).ok()) << "the same start may ask again";
  const Status status = coordinator_->Register(Of(1, 8), At(500));
  EXPECT_EQ(status.code(), StatusCode::kAlreadyExists);
  EXPECT_NE(status.message().find("/job:worker/task:0 is taken"), std::string::npos);
  // Once the first is lost, its successor may come; the first may not come back.
  coordinator_->Advance(At(2000));
  ASSERT_EQ(StateOf(1), MemberState::kLost);
  EXPECT_TRUE(coordinator_->Register(Of(1, 8), At(2001)).ok());
  EXPECT_EQ(coordinator_->Heartbeat({1, 7}, At(2002)).code(), StatusCode::kAborted);
  EXPECT_TRUE(coordinator_->Heartbeat({1, 8}, At(2002)).ok());
}

TEST_F(CoordinatorTest, NamesAndNumbersMustAgree) {
  Registration registration = Of(1);
  registration.task.number = 2;
  EXPECT_EQ(coordinator_->Register(registration, At(0)).code(), StatusCode::kInvalidArgument);
  registration.task.number = 3;
  EXPECT_EQ(coordinator_->Register(registration, At(0)).code(), StatusCode::kInvalidArgument);
  registration = Of(1, 0);
  EXPECT_EQ(coordinator_->Register(registration, At(0)).code(), StatusCode::kInvalidArgument);
}

TEST_F(CoordinatorTest, WaitsForAllAndNamesTheMissing) {
  Outcome all;
  Outcome late;
  coordinator_->WaitForTasks({1, 1}, {0, 1, 2}, Until(900), all.Callback());
  coordinator_->WaitForTasks({1, 1}, {0, 1, 2}, Until(100), late.Callback());
  ASSERT_TRUE(coordinator_->Register(Of(1), At(10)).ok());
  coordinator_->Advance(At(100));
  ASSERT_TRUE(late.status.has_value());
  EXPECT_EQ(late.status->code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(late.status->message(),
            "still waiting for 2 of 3 tasks: /job:ps/task:0, /job:worker/task:1");
  EXPECT_FALSE(all.status.has_value());
  RegisterAll(200);
  ASSERT_TRUE(all.status.has_value());
  EXPECT_TRUE(all.status->ok());
}

TEST_F(CoordinatorTest, WhoWasRefusedIsToldAndNamedAtTheDeadline) {
  const ClusterSpec other =
      ClusterSpec::Create({{"ps", {"a:1"}}, {"worker", {"b:1", "d:1"}}}).value();
  Registration registration = Of(2, 7);
  registration.fingerprint = other.Fingerprint().value();
  registration.cluster = other.ToJson();
  ASSERT_TRUE(coordinator_->Register(Of(0), At(0)).ok());
  ASSERT_TRUE(coordinator_->Register(Of(1), At(0)).ok());
  Outcome wait;
  coordinator_->WaitForTasks({1, 1}, {0, 1, 2}, Until(1000), wait.Callback());
  for (const int ms : {100, 200, 300}) {
    EXPECT_FALSE(coordinator_->Register(registration, At(ms)).ok());
    coordinator_->NoteStranger("10.0.0.9:40000", At(ms));
  }
  ASSERT_EQ(told_.size(), 2U) << "once for each";
  EXPECT_EQ(told_[0].find("/job:worker/task:1 is refused: /job:worker/task:1 holds another"), 0U)
      << told_[0];
  EXPECT_EQ(told_[1].find("a caller at 10.0.0.9:40000 is refused"), 0U) << told_[1];
  coordinator_->Advance(At(1000));
  ASSERT_TRUE(wait.status.has_value());
  EXPECT_EQ(wait.status->code(), StatusCode::kDeadlineExceeded);
  const std::string& message = wait.status->message();
  EXPECT_EQ(message.find("still waiting for 1 of 3 tasks: /job:worker/task:1; "
                         "/job:worker/task:1 was refused 0.7 s ago: /job:worker/task:1 holds"),
            0U)
      << message;
  EXPECT_NE(message.find("3 callers were refused without the secret of this job, the last at "
                         "10.0.0.9:40000, 0.7 s ago"),
            std::string::npos)
      << message;
  // Another start of it is news; one that is let in makes the refusal history.
  registration.task.incarnation = 8;
  EXPECT_FALSE(coordinator_->Register(registration, At(1001)).ok());
  EXPECT_EQ(told_.size(), 3U);
}

TEST_F(CoordinatorTest, WhoCameAndLeftMeanwhileWasThere) {
  RegisterAll(0);
  ASSERT_TRUE(coordinator_->Leave({2, 1}, OkStatus(), At(1)).ok());
  Outcome late;
  coordinator_->WaitForTasks({1, 1}, {0, 1, 2}, Until(500), late.Callback());
  ASSERT_TRUE(late.status.has_value()) << "waits for a task that is done";
  EXPECT_TRUE(late.status->ok());
  // To one that came later it is missing.
  ASSERT_TRUE(coordinator_->Leave({0, 1}, OkStatus(), At(2)).ok());
  ASSERT_TRUE(coordinator_->Register(Of(0, 2), At(3)).ok());
  Outcome again;
  coordinator_->WaitForTasks({0, 2}, {0, 1, 2}, Until(500), again.Callback());
  EXPECT_FALSE(again.status.has_value());
  ASSERT_TRUE(coordinator_->Register(Of(2, 2), At(4)).ok());
  ASSERT_TRUE(again.status.has_value());
  EXPECT_TRUE(again.status->ok());
}

TEST_F(CoordinatorTest, WhoGivesUpEndsTheWait) {
  RegisterAll(0);
  ASSERT_TRUE(coordinator_->Leave({0, 1}, NotFound("no data"), At(1)).ok());
  Outcome late;
  coordinator_->WaitForTasks({1, 1}, {0, 1, 2}, Until(500), late.Callback());
  ASSERT_TRUE(late.status.has_value());
  EXPECT_EQ(late.status->code(), StatusCode::kUnavailable);
  EXPECT_EQ(late.status->message(), "/job:ps/task:0 gave up: NOT_FOUND: no data");
}

TEST_F(CoordinatorTest, SilentTasksAreLostAndEverybodyHears) {
  RegisterAll(0);
  const uint64_t before = coordinator_->view().number;
  std::optional<MembershipView> seen;
  coordinator_->Watch(before, Until(60'000),
                      [&](const Result<MembershipView>& view) { seen = view.value(); });
  for (int ms = 250; ms <= 2000; ms += 250) {
    ASSERT_TRUE(coordinator_->Heartbeat({0, 1}, At(ms)).ok());
    ASSERT_TRUE(coordinator_->Heartbeat({2, 1}, At(ms)).ok());
    coordinator_->Advance(At(ms));
    // Within twice the heartbeat, and not before one.
    EXPECT_EQ(seen.has_value(), ms > 1500) << ms;
  }
  ASSERT_TRUE(seen.has_value());
  EXPECT_GT(seen->number, before);
  EXPECT_EQ(seen->members[1].state, MemberState::kLost);
  EXPECT_EQ(seen->members[1].reason.code(), StatusCode::kUnavailable);
  EXPECT_NE(seen->members[1].reason.message().find("/job:worker/task:0 is lost"),
            std::string::npos);
  EXPECT_EQ(seen->members[2].state, MemberState::kActive);
}

TEST_F(CoordinatorTest, WatchAnswersAtItsDeadline) {
  RegisterAll(0);
  const uint64_t number = coordinator_->view().number;
  std::optional<MembershipView> seen;
  coordinator_->Watch(number, Until(100),
                      [&](const Result<MembershipView>& view) { seen = view.value(); });
  coordinator_->Advance(At(99));
  EXPECT_FALSE(seen.has_value());
  coordinator_->Advance(At(100));
  ASSERT_TRUE(seen.has_value());
  EXPECT_EQ(seen->number, number);
}

TEST_F(CoordinatorTest, JobIsOverWhenNobodyHasSomethingToDo) {
  RegisterAll(0);
  ASSERT_TRUE(coordinator_->SetJoined({0, 1}, true, At(1)).ok());
  EXPECT_FALSE(coordinator_->view().job_over);
  ASSERT_TRUE(coordinator_->Leave({1, 1}, OkStatus(), At(2)).ok());
  EXPECT_FALSE(coordinator_->view().job_over);
  ASSERT_TRUE(coordinator_->Leave({2, 1}, OkStatus(), At(3)).ok());
  EXPECT_TRUE(coordinator_->view().job_over);
}

TEST_F(CoordinatorTest, StandingServersDoNotEndTheJob) {
  RegisterAll(0);
  for (int number = 0; number < 3; ++number) {
    ASSERT_TRUE(coordinator_->SetJoined({number, 1}, true, At(1)).ok());
  }
  ASSERT_TRUE(coordinator_->Leave({1, 1}, OkStatus(), At(2)).ok());
  EXPECT_FALSE(coordinator_->view().job_over);
}

TEST_F(CoordinatorTest, BarrierOfAll) {
  RegisterAll(0);
  std::array<Outcome, 3> outcomes;
  for (int number = 0; number < 3; ++number) {
    for (Outcome& outcome : outcomes) {
      EXPECT_FALSE(outcome.status.has_value());
    }
    coordinator_->Barrier({number, 1}, "b", {}, Until(1000),
                          outcomes[static_cast<size_t>(number)].Callback(), At(1));
  }
  for (Outcome& outcome : outcomes) {
    ASSERT_TRUE(outcome.status.has_value());
    EXPECT_TRUE(outcome.status->ok());
  }
  // The name is free again.
  Outcome again;
  coordinator_->Barrier({0, 1}, "b", {}, Until(1000), again.Callback(), At(2));
  EXPECT_FALSE(again.status.has_value());
  coordinator_->Close(Unavailable("stopped"));
  ASSERT_TRUE(again.status.has_value());
}

TEST_F(CoordinatorTest, BarrierNamesTheMissing) {
  RegisterAll(0);
  Outcome outcome;
  coordinator_->Barrier({0, 1}, "epoch 3", {0, 2}, Until(500), outcome.Callback(), At(1));
  coordinator_->Advance(At(500));
  ASSERT_TRUE(outcome.status.has_value());
  EXPECT_EQ(outcome.status->code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(outcome.status->message(), "the barrier 'epoch 3' still waits for /job:worker/task:1");
}

TEST_F(CoordinatorTest, BarrierFailsWithALostParticipant) {
  RegisterAll(0);
  Outcome outcome;
  coordinator_->Barrier({0, 1}, "b", {0, 2}, Until(60'000), outcome.Callback(), At(1400));
  coordinator_->Advance(At(1600));
  ASSERT_TRUE(outcome.status.has_value());
  EXPECT_EQ(outcome.status->code(), StatusCode::kUnavailable);
  EXPECT_NE(outcome.status->message().find("/job:worker/task:1 is lost"), std::string::npos);
  // Later, it is not even waited for.
  Outcome later;
  coordinator_->Barrier({0, 1}, "b", {0, 2}, Until(60'000), later.Callback(), At(1601));
  ASSERT_TRUE(later.status.has_value());
  EXPECT_EQ(later.status->code(), StatusCode::kUnavailable);
}

TEST_F(CoordinatorTest, BarrierMisuse) {
  RegisterAll(0);
  Outcome stranger;
  coordinator_->Barrier({1, 1}, "b", {0, 2}, Until(500), stranger.Callback(), At(1));
  EXPECT_EQ(stranger.status->code(), StatusCode::kInvalidArgument);
  Outcome first;
  Outcome other;
  coordinator_->Barrier({0, 1}, "b", {0, 2}, Until(500), first.Callback(), At(1));
  coordinator_->Barrier({2, 1}, "b", {1, 2}, Until(500), other.Callback(), At(1));
  EXPECT_EQ(other.status->code(), StatusCode::kInvalidArgument);
  Outcome twice;
  coordinator_->Barrier({0, 1}, "b", {0, 2}, Until(500), twice.Callback(), At(1));
  EXPECT_EQ(first.status->code(), StatusCode::kAborted);
  EXPECT_FALSE(twice.status.has_value());
  Outcome nameless;
  coordinator_->Barrier({0, 1}, "", {0}, Until(500), nameless.Callback(), At(1));
  EXPECT_EQ(nameless.status->code(), StatusCode::kInvalidArgument);
  coordinator_->Close(Unavailable("stopped"));
}

TEST_F(CoordinatorTest, ValuesAreWrittenOnce) {
  EXPECT_TRUE(coordinator_->Insert("a/x", "1", false).ok());
  EXPECT_EQ(coordinator_->Insert("a/x", "2", false).code(), StatusCode::kAlreadyExists);
  EXPECT_TRUE(coordinator_->Insert("a/x", "3", true).ok());
  EXPECT_TRUE(coordinator_->Insert("a/y", "4", false).ok());
  EXPECT_TRUE(coordinator_->Insert("b", "5", false).ok());
  const KeyValueStore::Entries entries = coordinator_->List("a/");
  EXPECT_EQ(entries, (KeyValueStore::Entries{{"a/x", "3"}, {"a/y", "4"}}));
  EXPECT_EQ(coordinator_->Delete("a/", true), 2);
  EXPECT_EQ(coordinator_->Delete("a/x", false), 0);
  EXPECT_EQ(coordinator_->List("").size(), 1U);
}

TEST_F(CoordinatorTest, ValuesAreAwaited) {
  std::optional<Result<std::string>> got;
  std::optional<Result<std::string>> late;
  coordinator_->Get("k", Until(1000), [&](const Result<std::string>& value) { got = value; });
  coordinator_->Get("other", Until(1000), [&](const Result<std::string>& value) { late = value; });
  EXPECT_FALSE(got.has_value());
  ASSERT_TRUE(coordinator_->Insert("k", "v", false).ok());
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->value(), "v");
  coordinator_->Advance(At(1000));
  ASSERT_TRUE(late.has_value());
  EXPECT_EQ(late->status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(late->status().message().find("'other'"), std::string::npos);
  std::optional<Result<std::string>> now;
  coordinator_->Get("other", Deadline::After(milliseconds(0)),
                    [&](const Result<std::string>& value) { now = value; });
  EXPECT_EQ(now->status().code(), StatusCode::kNotFound);
}

TEST_F(CoordinatorTest, ValuesHaveLimits) {
  EXPECT_EQ(coordinator_->Insert("", "v", false).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(coordinator_->Insert(std::string(2000, 'k'), "v", false).code(),
            StatusCode::kInvalidArgument);
  const std::string big(KeyValueStore::kMaxValueBytes, 'v');
  EXPECT_EQ(coordinator_->Insert("k", big + "v", false).code(), StatusCode::kResourceExhausted);
  Status status;
  int count = 0;
  for (; status.ok(); ++count) {
    status = coordinator_->Insert(std::to_string(count), big, false);
  }
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(count, 16);
}

TEST_F(CoordinatorTest, ClosedAnswersEverything) {
  RegisterAll(0);
  Outcome wait;
  Outcome barrier;
  std::optional<Status> value;
  std::optional<Status> watch;
  ASSERT_TRUE(coordinator_->Leave({1, 1}, OkStatus(), At(1)).ok());
  // To one that came after it had left, it is missing.
  ASSERT_TRUE(coordinator_->Leave({0, 1}, OkStatus(), At(1)).ok());
  ASSERT_TRUE(coordinator_->Register(Of(0, 2), At(1)).ok());
  coordinator_->WaitForTasks({0, 2}, {1}, Until(1000), wait.Callback());
  coordinator_->Barrier({0, 2}, "b", {0, 2}, Until(1000), barrier.Callback(), At(1));
  coordinator_->Get("k", Until(1000),
                    [&](const Result<std::string>& result) { value = result.status(); });
  coordinator_->Watch(coordinator_->view().number, Until(1000),
                      [&](const Result<MembershipView>& result) { watch = result.status(); });
  coordinator_->Close(Unavailable("stopped"));
  for (const auto& status : {wait.status, barrier.status, value, watch}) {
    ASSERT_TRUE(status.has_value());
    EXPECT_EQ(status->message(), "stopped");
  }
  EXPECT_EQ(coordinator_->Heartbeat({0, 2}, At(2)).message(), "stopped");
}

}  // namespace
}  // namespace lockstep::cluster
