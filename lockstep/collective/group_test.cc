// Groups whose members differ, are late, missing or lost, over the simulated network.
#include "lockstep/collective/group.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>

#include "lockstep/base/mutex.h"
#include "lockstep/net/sim/sim_network.h"
#include "lockstep/net/waiter.h"

namespace lockstep::collective {
namespace {

using net::PeerId;
using net::SimNetwork;
using net::SimOptions;
using std::chrono::milliseconds;
using std::chrono::seconds;

CallSpec Spec(int64_t elements = 10) {
  return {.name = "x", .shape = Shape{elements}};
}

SimOptions Tasks(int num_tasks) {
  SimOptions options;
  options.num_tasks = num_tasks;
  return options;
}

std::vector<PeerId> All(const SimNetwork& network) {
  std::vector<PeerId> tasks;
  for (int task = 0; task < network.num_tasks(); ++task) {
    tasks.push_back(task);
  }
  return tasks;
}

// How each task's call ended.
class Outcomes {
 public:
  void Set(PeerId task, const Status& status) {
    MutexLock lock(mu_);
    outcomes_[task] = status;
  }

  Status Of(PeerId task) {
    MutexLock lock(mu_);
    return outcomes_[task];
  }

  // All members ended with this code, and named these.
  void ExpectAll(int tasks, StatusCode code, const std::vector<std::string>& texts) {
    for (PeerId task = 0; task < tasks; ++task) {
      const Status status = Of(task);
      EXPECT_EQ(status.code(), code) << "task " << task << ": " << status.ToString();
      for (const std::string& text : texts) {
        EXPECT_NE(status.message().find(text), std::string::npos)
            << "task " << task << ": " << status.ToString() << " without " << text;
      }
    }
  }

 private:
  Mutex mu_;
  std::map<PeerId, Status> outcomes_ LS_GUARDED_BY(mu_);
};

// What shares memory: nobody, all, or members of one host, of whom there are two.
enum class Shared { kNone, kAll, kHosts };

std::string SharedName(const ::testing::TestParamInfo<Shared>& info) {
  return info.param == Shared::kNone ? "messages" : info.param == Shared::kAll ? "shared" : "hosts";
}

class GroupTest : public ::testing::TestWithParam<Shared> {
 protected:
  std::unique_ptr<Group> Create(SimNetwork& network, PeerId task) const {
    net::Transport& transport = network.transport(task);
    GroupOptions options{
        .name = "g", .tasks = All(network), .shared_memory = GetParam() != Shared::kNone};
    for (const PeerId member : options.tasks) {
      if (GetParam() == Shared::kHosts) {
        options.hosts.push_back(member / 2);
      }
    }
    Result<std::unique_ptr<Group>> group =
        Group::Create(transport, options, transport.After(seconds(10)));
    EXPECT_TRUE(group.ok()) << group.status().ToString();
    if (!group.ok()) {
      return nullptr;
    }
    EXPECT_EQ(
        (*group)->shares_memory(),
        GetParam() == Shared::kAll || (GetParam() == Shared::kHosts && network.num_tasks() <= 2));
    return std::move(group).value();
  }

  // Every task runs what `call` makes for it; the outcomes.
  void RunEach(SimNetwork& network, Outcomes& outcomes,
               const std::function<Status(PeerId, Group&)>& call) const {
    net::RunTasks(network, [&](PeerId task) {
      const auto group = Create(network, task);
      ASSERT_NE(group, nullptr);
      const Status first = call(task, *group);
      outcomes.Set(task, first);
      if (!first.ok()) {
        // Broken from then on, for the same reason.
        EXPECT_EQ(group->status().ToString(), first.ToString());
        const Status second =
            group->Run(BarrierCall("after"), network.transport(task).After(seconds(10)));
        EXPECT_EQ(second.ToString(), first.ToString());
      }
    });
  }
};

// Where members must send messages for something to happen to them.
class MessageGroupTest : public GroupTest {};

INSTANTIATE_TEST_SUITE_P(Memory, GroupTest,
                         ::testing::Values(Shared::kNone, Shared::kAll, Shared::kHosts),
                         SharedName);
INSTANTIATE_TEST_SUITE_P(Memory, MessageGroupTest, ::testing::Values(Shared::kNone, Shared::kHosts),
                         SharedName);

TEST_P(GroupTest, ADifferenceIsAnErrorAtAllThatNamesBothSides) {
  std::vector<float> value(100);
  const auto reduce = [&](const CallSpec& spec) {
    return AllReduceCall(spec, {value.data()}, value.data());
  };
  CallSpec other_name = Spec();
  other_name.name = "y";
  CallSpec other_type = Spec();
  other_type.dtype = DType::kInt32;
  CallSpec other_op = Spec();
  other_op.op = ReduceOp::kMax;
  CallSpec other_algorithm = Spec();
  other_algorithm.algorithm = Algorithm::kPairwise;
  CallSpec other_codec = Spec();
  other_codec.codec = Codec::kInt8;
  const std::vector<Call> others = {
      reduce(other_name),
      reduce(other_type),
      reduce(other_op),
      reduce(Spec(11)),
      reduce(other_algorithm),
      reduce(other_codec),
      BroadcastCall(Spec(), value.data()),
      BarrierCall("x"),
  };
  for (const Call& other : others) {
    SimNetwork network(Tasks(3));
    Outcomes outcomes;
    RunEach(network, outcomes, [&](PeerId task, Group& group) {
      // Buffers of their own: the call must not touch what others use.
      std::vector<float> mine(100);
      Call call = task == 1 ? other : reduce(Spec());
      call.inputs.assign(call.inputs.size(), mine.data());
      call.output = mine.data();
      return group.Run(call, network.transport(task).After(seconds(5)));
    });
    outcomes.ExpectAll(3, StatusCode::kInvalidArgument,
                       {"/job:worker/task:1", Describe(other), "all_reduce 'x' sum float32 [10]"});
    EXPECT_LT(network.now(), seconds(1));
  }
}

TEST_P(GroupTest, CallsInAnotherOrderAreAnErrorAtAll) {
  SimNetwork network(Tasks(3));
  Outcomes outcomes;
  RunEach(network, outcomes, [&](PeerId task, Group& group) {
    float value = 1;
    const Deadline deadline = network.transport(task).After(seconds(5));
    CallSpec first = Spec(1);
    CallSpec second = Spec(1);
    (task == 2 ? second : first).name = "first";
    (task == 2 ? first : second).name = "second";
    LS_TRY(group.Run(AllReduceCall(first, {&value}, &value), deadline));
    return group.Run(AllReduceCall(second, {&value}, &value), deadline);
  });
  outcomes.ExpectAll(3, StatusCode::kInvalidArgument, {"'first'", "'second'", "task:2"});
}

TEST_P(GroupTest, ACallThatDoesNotFitIsAnErrorAtAll) {
  SimNetwork network(Tasks(3));
  Outcomes outcomes;
  RunEach(network, outcomes, [&](PeerId task, Group& group) {
    std::vector<float> value(10);
    return group.Run(AllReduceCall(Spec(), {value.data()}, task == 1 ? nullptr : value.data()),
                     network.transport(task).After(seconds(5)));
  });
  outcomes.ExpectAll(3, StatusCode::kInvalidArgument, {"/job:worker/task:1", "no buffer"});
}

TEST_P(GroupTest, AllThatDoNotComeAreNamed) {
  SimNetwork network(Tasks(4));
  Outcomes outcomes;
  RunEach(network, outcomes, [&](PeerId task, Group& group) -> Status {
    if (task >= 2) {
      return OkStatus();  // does not call
    }
    std::vector<float> value(10);
    return group.Run(AllReduceCall(Spec(), {value.data()}, value.data()),
                     network.transport(task).After(milliseconds(1500)));
  });
  for (const PeerId task : {0, 1}) {
    const Status status = outcomes.Of(task);
    EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
    EXPECT_EQ(status.message(),
              "/job:worker/task:2, /job:worker/task:3 did not come within 1.500 s");
    EXPECT_NE(status.ToString().find("call 1 of group 'g': all_reduce 'x'"), std::string::npos)
        << status.ToString();
  }
}

TEST_P(GroupTest, ALateMemberLearnsThatItIsTooLate) {
  SimNetwork network(Tasks(3));
  Outcomes outcomes;
  RunEach(network, outcomes, [&](PeerId task, Group& group) {
    std::vector<float> value(10);
    net::Transport& transport = network.transport(task);
    if (task == 2) {
      // Waits for a message that never comes.
      EXPECT_EQ(net::RecvAndWait(transport, 0, {.scope = 99}, value.data(), 4,
                                 transport.After(seconds(3)))
                    .status()
                    .code(),
                StatusCode::kDeadlineExceeded);
    }
    return group.Run(AllReduceCall(Spec(), {value.data()}, value.data()),
                     transport.After(seconds(1)));
  });
  outcomes.ExpectAll(3, StatusCode::kDeadlineExceeded,
                     {"/job:worker/task:2 did not come within 1.000 s"});
}

TEST_P(MessageGroupTest, ALostMemberIsNamedAtOnce) {
  for (const Algorithm algorithm : {Algorithm::kGather, Algorithm::kPairwise}) {
    for (const int64_t message : {2, 3, 5, 7}) {
      SimNetwork network(Tasks(3));
      // Members on several hosts send each other more when the group is made.
      network.KillTaskAtMessage(2, GetParam() == Shared::kHosts ? message + 4 : message);
      Outcomes outcomes;
      RunEach(network, outcomes, [&](PeerId task, Group& group) {
        std::vector<float> value(30000);
        CallSpec spec = Spec(30000);
        spec.algorithm = algorithm;
        Status status;
        for (int call = 0; call < 10 && status.ok(); ++call) {
          status = group.Run(AllReduceCall(spec, {value.data()}, value.data()),
                             network.transport(task).After(seconds(60)));
        }
        return status;
      });
      for (const PeerId task : {0, 1}) {
        const Status status = outcomes.Of(task);
        EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.ToString();
        EXPECT_NE(status.message().find("/job:worker/task:2 is lost"), std::string::npos)
            << status.ToString();
      }
      EXPECT_LT(network.now(), seconds(1));
    }
  }
}

TEST_P(MessageGroupTest, ASilentMemberIsLostWithinTwoHeartbeats) {
  SimOptions options = Tasks(3);
  options.heartbeat = milliseconds(200);
  SimNetwork network(options);
  network.StopTask(2, milliseconds(50), seconds(1000));
  Outcomes outcomes;
  std::map<PeerId, net::SimTime> times;
  Mutex mu;
  RunEach(network, outcomes, [&](PeerId task, Group& group) {
    std::vector<float> value(30000);
    Status status;
    while (status.ok()) {
      status = group.Run(AllReduceCall(Spec(30000), {value.data()}, value.data()),
                         network.transport(task).After(seconds(60)));
    }
    MutexLock lock(mu);
    times[task] = network.now();
    return status;
  });
  for (const PeerId task : {0, 1}) {
    EXPECT_EQ(outcomes.Of(task).code(), StatusCode::kUnavailable);
    EXPECT_NE(outcomes.Of(task).message().find("/job:worker/task:2 is lost"), std::string::npos)
        << outcomes.Of(task).ToString();
    EXPECT_LT(times[task], milliseconds(50 + 2 * 200));
  }
}

TEST_P(GroupTest, AMemberThatIsLostMeanwhileIsNamedAtOnce) {
  SimOptions options = Tasks(3);
  options.virtual_time = false;
  SimNetwork network(options);
  Outcomes outcomes;
  RunEach(network, outcomes, [&](PeerId task, Group& group) {
    std::vector<float> value(1000);
    Status status;
    for (int calls = 0; status.ok(); ++calls) {
      if (task == 0 && calls == 10) {
        network.KillTask(2, network.now());
      }
      status = group.Run(AllReduceCall(Spec(1000), {value.data()}, value.data()),
                         network.transport(task).After(seconds(60)));
    }
    return status;
  });
  for (const PeerId task : {0, 1}) {
    const Status status = outcomes.Of(task);
    EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.ToString();
    EXPECT_NE(status.message().find("/job:worker/task:2 is lost"), std::string::npos)
        << status.ToString();
  }
}

TEST_P(GroupTest, OneThatDoesWithoutSharedMemoryMakesAllDoWithout) {
  SimNetwork network(Tasks(3));
  net::RunTasks(network, [&](PeerId task) {
    net::Transport& transport = network.transport(task);
    auto group = Group::Create(transport,
                               {.name = "h",
                                .tasks = All(network),
                                .shared_memory = GetParam() != Shared::kNone && task != 1},
                               transport.After(seconds(10)));
    ASSERT_TRUE(group.ok()) << group.status().ToString();
    EXPECT_FALSE((*group)->shares_memory());
    EXPECT_TRUE((*group)->Run(BarrierCall("b"), transport.After(seconds(10))).ok());
  });
}

TEST_P(GroupTest, DelaysChangeNothing) {
  SimOptions options = Tasks(4);
  options.jitter = milliseconds(20);
  options.reorder = true;
  SimNetwork network(options);
  network.DelayLink(1, 3, milliseconds(300));
  network.StopTask(0, milliseconds(40), milliseconds(700));
  Outcomes outcomes;
  RunEach(network, outcomes, [&](PeerId task, Group& group) {
    std::vector<int64_t> value(20000, int64_t{1} << (8 * task));
    CallSpec spec = Spec(20000);
    spec.dtype = DType::kInt64;
    LS_TRY(group.Run(AllReduceCall(spec, {value.data()}, value.data()),
                     network.transport(task).After(seconds(60))));
    EXPECT_EQ(value, std::vector<int64_t>(20000, 0x01010101));
    return OkStatus();
  });
  outcomes.ExpectAll(4, StatusCode::kOk, {});
}

TEST(CreateGroupTest, MembersThatCreateDifferentGroupsAllFail) {
  SimNetwork network(Tasks(3));
  Outcomes outcomes;
  net::RunTasks(network, [&](PeerId task) {
    net::Transport& transport = network.transport(task);
    GroupOptions options{.name = "g", .tasks = All(network)};
    if (task == 1) {
      options.tasks = {0, 1};
    }
    outcomes.Set(task, Group::Create(transport, options, transport.After(seconds(5))).status());
  });
  outcomes.ExpectAll(3, StatusCode::kInvalidArgument, {"group 'g'", "/job:worker/task:1"});
  EXPECT_LT(network.now(), seconds(1));
}

TEST(CreateGroupTest, OptionsThatMakeNoSenseAreRefused) {
  SimNetwork network(Tasks(2));
  const auto refused = [&](const GroupOptions& options, const std::string& text) {
    const Status status =
        Group::Create(network.transport(0), options, network.transport(0).After(seconds(1)))
            .status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(text), std::string::npos) << status.ToString();
  };
  refused({.name = "g", .tasks = {0, 2}}, "there is no task 2");
  refused({.name = "g", .tasks = {0, 1, 0}}, "task:0 is named twice");
  refused({.name = "g", .tasks = {1}}, "task:0 is no member");
  refused({.name = "g", .tasks = {}}, "task:0 is no member");
  refused({.name = "g", .tasks = {0}, .replicas = -1}, "-1 replicas");
  refused({.name = "g", .tasks = {0, 1}, .hosts = {0}}, "hosts of 1 members: there are 2");
}

TEST_P(GroupTest, AGroupOfAnotherGenerationFollowsABrokenOne) {
  SimNetwork network(Tasks(2));
  net::RunTasks(network, [&](PeerId task) {
    net::Transport& transport = network.transport(task);
    auto broken = Create(network, task);
    ASSERT_NE(broken, nullptr);
    EXPECT_FALSE(broken->Run(BarrierCall(task == 0 ? "a" : "b"), transport.After(seconds(5))).ok());
    broken.reset();
    const GroupOptions options{.name = "g", .generation = 1, .tasks = All(network)};
    auto next = Group::Create(transport, options, transport.After(seconds(5)));
    ASSERT_TRUE(next.ok()) << next.status().ToString();
    EXPECT_TRUE((*next)->Run(BarrierCall("c"), transport.After(seconds(5))).ok());
  });
  EXPECT_EQ(network.transport(0).num_pending(), 0);
}

TEST_P(GroupTest, ClosingEndsWhatHasNotBegun) {
  SimOptions options = Tasks(2);
  options.virtual_time = false;
  SimNetwork network(options);
  net::RunTasks(network, [&](PeerId task) {
    net::Transport& transport = network.transport(task);
    auto group = Create(network, task);
    ASSERT_NE(group, nullptr);
    if (task == 1) {
      return;
    }
    // The first waits for a member that has gone; the second never begins.
    const Work first = group->Start(BarrierCall("a"), transport.After(milliseconds(300)));
    const Work second = group->Start(BarrierCall("b"), transport.After(seconds(60)));
    group.reset();
    EXPECT_FALSE(first.Wait().ok());
    EXPECT_FALSE(second.Wait().ok());
  });
}

}  // namespace
}  // namespace lockstep::collective
