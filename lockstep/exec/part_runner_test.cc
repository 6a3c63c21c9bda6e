// Two tasks in one process, which meet in a local rendezvous.
#include "lockstep/exec/part_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "lockstep/exec/local_rendezvous.h"
#include "lockstep/exec/step_status.h"
#include "lockstep/exec/testing/tensors.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/catalog.h"
#include "lockstep/op/const.h"
#include "lockstep/op/gather.h"
#include "lockstep/op/identity.h"
#include "lockstep/op/placeholder.h"
#include "lockstep/op/unary.h"
#include "lockstep/op/variable.h"
#include "lockstep/pass/place.h"

namespace lockstep::exec {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kPs[] = "/job:ps/replica:0/task:0";
constexpr char kWorker[] = "/job:worker/replica:0/task:0";

class PartRunnerTest : public ::testing::Test {
 protected:
  // A signature with its parts registered.
  struct Registered {
    pass::PartitionedGraph graph;
    std::vector<uint64_t> handles;  // by part
  };

  PartRunner& RunnerOf(const std::string& device) {
    return device.find("/job:ps") == 0 ? *ps_ : *worker_;
  }

  Registered Register(const std::vector<Value>& feeds, const std::vector<Value>& fetches,
                      const std::vector<Node*>& targets = {}, uint64_t scope = 1) {
    EXPECT_TRUE(b_.status().ok()) << b_.status().ToString();
    std::vector<pass::DeviceAttributes> devices;
    for (const PartRunner* runner : {ps_.get(), worker_.get()}) {
      for (const std::string& name : runner->devices()) {
        devices.push_back({.name = name});
      }
    }
    const pass::DeviceSet set = pass::DeviceSet::Create(devices, worker_->devices()[0], {}).value();
    const pass::Placement placement = pass::Place(graph_, set, {}).value();
    std::vector<pass::Feed> shapes;
    for (const Value& feed : feeds) {
      shapes.push_back({feed, feed.dtype(), feed.shape()});
    }
    const pass::SpecializedGraph graph =
        pass::Specialize(graph_, shapes, fetches, targets, placement.devices).value();
    Registered result;
    result.graph = pass::Partition(graph, {}).value();
    for (const pass::Part& part : result.graph.parts) {
      PartRegistration registration;
      registration.parts.push_back({part.device, pass::SerializePart(part).value()});
      registration.scope = scope;
      const Result<uint64_t> handle = RunnerOf(part.device).Register(registration, Peers());
      EXPECT_TRUE(handle.ok()) << handle.status().ToString();
      result.handles.push_back(handle.ok() ? *handle : 0);
    }
    return result;
  }

  static PeerResolver Peers() {
    return [](const std::string& device) -> Result<PeerNumber> {
      return device.find("/job:ps") == 0 ? 0 : 1;
    };
  }

  // Runs all parts, each in a thread, as a master does. Positions are those of the signature.
  Status Run(const Registered& registered, uint64_t step, const std::vector<Tensor>& feeds,
             std::vector<Tensor>& fetches, Cancellation* cancellation = nullptr,
             Deadline deadline = Deadline::Infinite()) {
    std::vector<Status> statuses(registered.handles.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < registered.handles.size(); ++i) {
      threads.emplace_back([&, i] {
        const pass::Part& part = registered.graph.parts[i];
        std::vector<Tensor> part_feeds;
        for (const int feed : part.feeds) {
          part_feeds.push_back(feeds[static_cast<size_t>(feed)]);
        }
        std::vector<Tensor> part_fetches(part.fetches.size());
        const PartRun run{
            step, {.step = static_cast<int64_t>(step)}, &rendezvous_, deadline, cancellation};
        statuses[i] =
            RunnerOf(part.device).Run(registered.handles[i], run, part_feeds, part_fetches);
        for (size_t k = 0; k < part.fetches.size(); ++k) {
          fetches[static_cast<size_t>(part.fetches[k])] = part_fetches[k];
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    rendezvous_.Cleanup(1, step);
    StepStatus status;
    for (const Status& one : statuses) {
      status.Add(one);
    }
    return status.Get();
  }

  Value Vector(std::vector<float> values) {
    const auto count = static_cast<int64_t>(values.size());
    return op::Const(b_, Tensor::From<float>(Shape{count}, values));
  }

  LocalRendezvous rendezvous_;
  std::unique_ptr<PartRunner> ps_ = PartRunner::Create({.task = kPs}).value();
  std::unique_ptr<PartRunner> worker_ = PartRunner::Create({.task = kWorker, .devices = 2}).value();
  Graph graph_{op::Catalog()};
  Builder b_{graph_};
};

TEST_F(PartRunnerTest, AVariableOnAnotherTask) {
  Value v;
  {
    const DeviceScope scope(b_, "/job:ps");
    v = op::Variable(b_, "v", Vector({1, 2}));
  }
  const Value init{graph_.FindNode("v/Assign"), 0};
  const Value x = op::Placeholder(b_, DType::kFloat32, Shape{2}, "x");
  const Value product = op::Mul(b_, v, x);
  const Value update = op::AssignAdd(b_, v, product);
  std::vector<Tensor> none;
  const Registered start = Register({}, {}, {init.node});
  ASSERT_TRUE(Run(start, 1, {}, none).ok());
  const Registered step = Register({x}, {product}, {update.node});
  ASSERT_EQ(step.graph.parts.size(), 2U);
  std::vector<Tensor> fetches(1);
  const Tensor feed = Tensor::From<float>(Shape{2}, {1, 2}).value();
  ASSERT_TRUE(Run(step, 2, {feed}, fetches).ok());
  EXPECT_THAT(Floats(fetches[0]), ElementsAre(1, 4));
  ASSERT_TRUE(Run(step, 3, {feed}, fetches).ok());
  EXPECT_THAT(Floats(fetches[0]), ElementsAre(2, 12));
  // Variables live where they are, and outlive the graphs.
  for (size_t i = 0; i < step.handles.size(); ++i) {
    EXPECT_TRUE(RunnerOf(step.graph.parts[i].device).Deregister(step.handles[i]).ok());
  }
  EXPECT_THAT(Floats(ps_->Container("")->Read("v").value()), ElementsAre(4, 18));
  EXPECT_TRUE(worker_->Container("")->All().empty());
  EXPECT_EQ(Run(step, 4, {feed}, fetches).code(), StatusCode::kAborted);
  ps_->Reset({});
  EXPECT_TRUE(ps_->Container("")->All().empty());
}

TEST_F(PartRunnerTest, ContainersAreApart) {
  op::Variable(b_, "v", Vector({1}));
  const Registered registered = Register({}, {}, {graph_.FindNode("v/Assign")});
  std::vector<Tensor> none;
  ASSERT_TRUE(Run(registered, 1, {}, none).ok());
  EXPECT_EQ(worker_->Container("")->All().size(), 1U);
  EXPECT_TRUE(worker_->Container("other")->All().empty());
  const std::vector<std::string> names = {"other"};
  worker_->Reset(names);
  EXPECT_EQ(worker_->Container("")->All().size(), 1U);
}

TEST_F(PartRunnerTest, ManyStepsAtTheSameTime) {
  const Value x = op::Placeholder(b_, DType::kFloat32, Shape{2}, "x");
  Value far;
  {
    const DeviceScope scope(b_, "/job:ps");
    far = op::Neg(b_, op::Square(b_, x));
  }
  const Value back = op::Add(b_, far, x);
  Value last;
  {
    const DeviceScope scope(b_, "/job:worker/cpu:1");
    last = op::Sub(b_, back, far);
  }
  const Registered registered = Register({x}, {last});
  ASSERT_EQ(registered.handles.size(), 3U);
  std::vector<std::thread> clients;
  std::vector<int> wrong(3);
  for (size_t client = 0; client < wrong.size(); ++client) {
    clients.emplace_back([&, client] {
      for (uint64_t i = 0; i < 30; ++i) {
        const float value = static_cast<float>(client * 100 + i);
        const Tensor feed = Tensor::From<float>(Shape{2}, {value, 1}).value();
        std::vector<Tensor> fetches(1);
        const Status status = Run(registered, 1 + client * 1000 + i, {feed}, fetches);
        wrong[client] += status.ok() && Floats(fetches[0])[0] == value ? 0 : 1;
      }
    });
  }
  for (std::thread& client : clients) {
    client.join();
  }
  EXPECT_THAT(wrong, ElementsAre(0, 0, 0));
  EXPECT_EQ(rendezvous_.num_steps(), 0U);
}

TEST_F(PartRunnerTest, TheCauseOfAnErrorIsReported) {
  const Value x = op::Placeholder(b_, DType::kInt32, Shape{1}, "x");
  Value far;
  {
    const DeviceScope scope(b_, "/job:ps");
    far = op::Gather(b_, op::Neg(b_, op::Const(b_, Tensor::From<float>(Shape{2, 1}, {1, 2}))), x);
  }
  const Value back = op::Neg(b_, far);
  const Registered registered = Register({x}, {back});
  std::vector<Tensor> fetches(1);
  const Tensor bad = Tensor::From<int32_t>(Shape{1}, {5}).value();
  const Status status = Run(registered, 1, {bad}, fetches);
  EXPECT_THAT(status.ToString(), AllOf(HasSubstr("op Gather 'Gather'"), HasSubstr(kPs)));
  const Tensor good = Tensor::From<int32_t>(Shape{1}, {1}).value();
  ASSERT_TRUE(Run(registered, 2, {good}, fetches).ok());
  EXPECT_THAT(Floats(fetches[0]), ElementsAre(2));
}

class LonelyPartTest : public PartRunnerTest {
 protected:
  // The worker's part of a step whose other part never runs.
  uint64_t RegisterLonely() {
    const Value x = op::Placeholder(b_, DType::kFloat32, Shape{2}, "x");
    Value far;
    {
      const DeviceScope scope(b_, "/job:ps");
      far = op::Neg(b_, x);
    }
    const Value back = op::Add(b_, far, x);
    const Registered registered = Register({x}, {back});
    return registered.handles[1];
  }

  Status RunLonely(uint64_t handle, const Deadline& deadline, Cancellation* cancellation) {
    const std::vector<Tensor> feeds = {Tensor::From<float>(Shape{2}, {1, 2}).value()};
    std::vector<Tensor> fetches(1);
    const PartRun run{7, {}, &rendezvous_, deadline, cancellation};
    const Status status = worker_->Run(handle, run, feeds, fetches);
    rendezvous_.Cleanup(1, 7);
    return status;
  }
};

TEST_F(LonelyPartTest, ADeadlineNamesWhoIsMissing) {
  const uint64_t handle = RegisterLonely();
  const Status status = RunLonely(handle, Deadline::After(std::chrono::milliseconds(20)), nullptr);
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(status.ToString(), AllOf(HasSubstr("'Neg/recv_0' has not come from"), HasSubstr(kPs),
                                       HasSubstr(kWorker)));
}

TEST_F(LonelyPartTest, CancellationReachesAPartThatWaits) {
  const uint64_t handle = RegisterLonely();
  Cancellation cancellation;
  std::thread canceller([&] { cancellation.Cancel(Cancelled("the client went away")); });
  const Status status = RunLonely(handle, Deadline::Infinite(), &cancellation);
  canceller.join();
  EXPECT_EQ(status.code(), StatusCode::kCancelled);
  EXPECT_THAT(status.message(), HasSubstr("the client went away"));
}

TEST_F(LonelyPartTest, AnotherTypeOrShapeIsRefused) {
  const uint64_t handle = RegisterLonely();
  rendezvous_.Send(1, {1, 7, 0}, Tensor::From<float>(Shape{3}, {1, 2, 3}).value(),
                   [](const Status&) {});
  const Status status = RunLonely(handle, Deadline::Infinite(), nullptr);
  EXPECT_THAT(status.ToString(),
              AllOf(HasSubstr("sent float32 [3], expected float32 [2]"), HasSubstr(kPs)));
}

TEST_F(PartRunnerTest, BadRequestsAreRefused) {
  EXPECT_THAT(PartRunner::Create({.task = "/job:ps"}).status().message(),
              HasSubstr("'/job:ps' is no task"));
  EXPECT_FALSE(PartRunner::Create({.task = kPs, .devices = 0}).ok());
  PartRegistration registration;
  registration.parts.push_back({"/job:ps/replica:0/task:1/device:CPU:0", ""});
  EXPECT_THAT(ps_->Register(registration, Peers()).status().message(),
              HasSubstr("there is no device '/job:ps/replica:0/task:1/device:CPU:0'"));
  registration.parts[0] = {std::string(kPs) + "/device:CPU:0", "garbage"};
  EXPECT_FALSE(ps_->Register(registration, Peers()).ok());
  EXPECT_EQ(ps_->Deregister(77).code(), StatusCode::kNotFound);

  const Value x = op::Placeholder(b_, DType::kFloat32, Shape{2}, "x");
  const Registered registered = Register({x}, {op::Neg(b_, x)});
  const PartRun run{1, {}, &rendezvous_, Deadline::Infinite(), nullptr};
  std::vector<Tensor> fetches(1);
  EXPECT_THAT(worker_->Run(registered.handles[0], run, {}, fetches).message(),
              HasSubstr("0 feeds and 1 fetches for parts with 1 and 1"));
  const std::vector<Tensor> wrong = {Tensor::From<float>(Shape{3}, {1, 2, 3}).value()};
  EXPECT_THAT(worker_->Run(registered.handles[0], run, wrong, fetches).message(),
              HasSubstr("is float32 [3], expected float32 [2]"));
  const std::vector<Tensor> empty(1);
  EXPECT_THAT(worker_->Run(registered.handles[0], run, empty, fetches).message(),
              HasSubstr("there is no feed 0"));
}

TEST_F(PartRunnerTest, AnUnknownPeerIsAnErrorOfTheRegistration) {
  const Value x = op::Placeholder(b_, DType::kFloat32, Shape{2}, "x");
  Value far;
  {
    const DeviceScope scope(b_, "/job:ps");
    far = op::Neg(b_, op::Identity(b_, x));
  }
  const Registered registered = Register({x}, {op::Neg(b_, far)});
  PartRegistration registration;
  registration.parts.push_back(
      {registered.graph.parts[0].device, pass::SerializePart(registered.graph.parts[0]).value()});
  const PeerResolver nobody = [](const std::string& device) -> Result<PeerNumber> {
    return NotFound("no link to " + device);
  };
  EXPECT_THAT(ps_->Register(registration, nobody).status().message(),
              HasSubstr("no link to /job:worker"));
}

}  // namespace
}  // namespace lockstep::exec
