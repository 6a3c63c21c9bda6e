// The scripted faults of the simulated network, and that its runs repeat.
#include "lockstep/net/sim/sim_network.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <string>
#include <vector>

#include "lockstep/net/waiter.h"

namespace lockstep::net {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

MessageHeader BytesHeader(uint64_t bytes) {
  MessageHeader header;
  header.shape = Shape{static_cast<int64_t>(bytes)};
  header.bytes = bytes;
  return header;
}

Status Send(Transport& transport, PeerId to, uint64_t item, milliseconds timeout = seconds(60)) {
  const std::array<char, 8> data{};
  return SendAndWait(transport, to, {.scope = 1, .step = 1, .item = item}, BytesHeader(8),
                     data.data(), transport.After(timeout));
}

Status Recv(Transport& transport, PeerId from, uint64_t item, milliseconds timeout = seconds(60)) {
  std::array<char, 8> data{};
  return RecvAndWait(transport, from, {.scope = 1, .step = 1, .item = item}, data.data(), 8,
                     transport.After(timeout))
      .status();
}

SimOptions Tasks(int count) {
  SimOptions options;
  options.num_tasks = count;
  return options;
}

TEST(SimNetworkTest, AMinuteOfWaitingTakesNoTime) {
  SimNetwork network(Tasks(2));
  const auto start = std::chrono::steady_clock::now();
  RunTasks(network, [&](PeerId task) {
    EXPECT_EQ(Recv(network.transport(task), 1 - task, 1).code(), StatusCode::kDeadlineExceeded);
  });
  EXPECT_EQ(network.now(), seconds(60));
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(30));
}

TEST(SimNetworkTest, LatencyAndRateAddUp) {
  SimOptions options = Tasks(2);
  options.latency = milliseconds(2);
  SimNetwork network(options);
  RunTasks(network, [&](PeerId task) {
    for (uint64_t i = 0; i < 5; ++i) {
      EXPECT_TRUE(
          (task == 0 ? Send(network.transport(0), 1, i) : Recv(network.transport(1), 0, i)).ok());
      EXPECT_TRUE(
          (task == 1 ? Send(network.transport(1), 0, i) : Recv(network.transport(0), 1, i)).ok());
    }
  });
  EXPECT_EQ(network.now(), milliseconds(20));
  EXPECT_EQ(network.counts(0, 1).messages, 5);
  EXPECT_EQ(network.counts(0, 1).payload_bytes, 40);
}

TEST(SimNetworkTest, AKilledTaskIsNamed) {
  for (const bool by_message : {false, true}) {
    SimNetwork network(Tasks(3));
    if (by_message) {
      network.KillTaskAtMessage(2, 3);
    } else {
      network.KillTask(2, microseconds(35));
    }
    std::atomic<int> received{0};
    RunTasks(network, [&](PeerId task) {
      Transport& transport = network.transport(task);
      Status status;
      for (uint64_t i = 0; i < 10 && status.ok(); ++i) {
        if (task == 2) {
          status = Send(transport, 0, i);
          if (status.ok()) {
            status = Recv(transport, 0, i);
          }
        } else if (task == 0) {
          status = Recv(transport, 2, i);
          if (status.ok()) {
            received += 1;
            status = Send(transport, 2, i);
          }
        }
      }
      if (task == 0) {
        EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.ToString();
        EXPECT_NE(status.message().find("/job:worker/task:2 is lost"), std::string::npos)
            << status.ToString();
        EXPECT_TRUE(transport.peer_status(1).ok());
      } else if (task == 2) {
        EXPECT_FALSE(status.ok());
      }
    });
    if (by_message) {
      EXPECT_EQ(received.load(), 3);
    }
    EXPECT_LT(network.now(), milliseconds(1));
  }
}

TEST(SimNetworkTest, DroppedMessagesNeverArrive) {
  SimNetwork network(Tasks(2));
  network.DropMessage(0, 1, 1);
  RunTasks(network, [&](PeerId task) {
    Transport& transport = network.transport(task);
    for (uint64_t i = 0; i < 3; ++i) {
      if (task == 0) {
        EXPECT_TRUE(Send(transport, 1, i).ok());
      } else {
        EXPECT_EQ(Recv(transport, 0, i, seconds(1)).ok(), i != 1);
      }
    }
  });
}

TEST(SimNetworkTest, AStoppedTaskIsOnlyLate) {
  SimNetwork network(Tasks(2));
  network.StopTask(1, SimTime(0), seconds(5));
  RunTasks(network, [&](PeerId task) {
    Transport& transport = network.transport(task);
    if (task == 0) {
      EXPECT_EQ(Recv(transport, 1, 1, seconds(1)).code(), StatusCode::kDeadlineExceeded);
      EXPECT_TRUE(Recv(transport, 1, 2).ok());
      EXPECT_GE(network.now(), seconds(5));
    } else {
      EXPECT_TRUE(Send(transport, 0, 1).ok());
      EXPECT_TRUE(Send(transport, 0, 2).ok());
    }
  });
}

TEST(SimNetworkTest, ASilentPeerIsLostWithinTwoHeartbeats) {
  SimOptions options = Tasks(3);
  options.heartbeat = seconds(2);
  SimNetwork network(options);
  network.StopTask(1, seconds(60), seconds(1000));
  RunTasks(network, [&](PeerId task) {
    Transport& transport = network.transport(task);
    if (task == 1) {
      EXPECT_FALSE(Recv(transport, 0, 1, seconds(1000)).ok());
      return;
    }
    // Both are waited for, and answer that they live; one of them until it is stopped.
    const Status lost = Recv(transport, 1, 1, seconds(1000));
    EXPECT_EQ(lost.code(), StatusCode::kUnavailable);
    EXPECT_NE(lost.ToString().find("/job:worker/task:1 is lost: no sign of life for"),
              std::string::npos)
        << lost.ToString();
    EXPECT_GE(network.now(), seconds(60));
    EXPECT_LE(network.now(), seconds(64));
    EXPECT_TRUE(task == 0 ? Recv(transport, 2, 2).ok() : Send(transport, 0, 2).ok());
  });
}

TEST(SimNetworkTest, NobodyIsAskedWhileNothingIsPending) {
  SimOptions options = Tasks(2);
  options.heartbeat = seconds(2);
  SimNetwork network(options);
  network.StopTask(1, seconds(5), seconds(100));
  RunTasks(network, [&](PeerId task) {
    Transport& transport = network.transport(task);
    // Task 0 waits for itself only, until the other is back.
    EXPECT_EQ(Recv(transport, task, 1, seconds(200)).code(), StatusCode::kDeadlineExceeded);
    EXPECT_TRUE(transport.peer_status(1 - task).ok());
    EXPECT_TRUE(task == 0 ? Recv(transport, 1, 2).ok() : Send(transport, 0, 2).ok());
  });
}

TEST(SimNetworkTest, APartitionHoldsWhatCrossesIt) {
  SimNetwork network(Tasks(4));
  network.Partition({0, 1}, SimTime(0), seconds(3));
  RunTasks(network, [&](PeerId task) {
    Transport& transport = network.transport(task);
    const PeerId near = task ^ 1;
    const PeerId far = task ^ 2;
    EXPECT_TRUE(Send(transport, near, 1).ok());
    EXPECT_TRUE(Send(transport, far, 1).ok());
    EXPECT_TRUE(Recv(transport, near, 1, seconds(1)).ok());
    EXPECT_EQ(Recv(transport, far, 2, seconds(1)).code(), StatusCode::kDeadlineExceeded);
    EXPECT_TRUE(Recv(transport, far, 1).ok());
    EXPECT_GE(network.now(), seconds(3));
  });
}

TEST(SimNetworkTest, WithoutAnythingUnderWayWaitingEnds) {
  SimNetwork network(Tasks(2));
  std::array<char, 8> data{};
  const auto result =
      RecvAndWait(network.transport(0), 1, {}, data.data(), 8, Deadline::Infinite());
  EXPECT_EQ(result.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(result.status().message().find("every task waits"), std::string::npos);
}

TEST(SimNetworkTest, TheSameSeedIsTheSameRun) {
  const auto run = [](uint64_t seed) {
    SimOptions options = Tasks(4);
    options.seed = seed;
    options.jitter = milliseconds(1);
    options.reorder = true;
    options.loss = 0.2;
    SimNetwork network(options);
    std::vector<std::string> logs(4);
    RunTasks(network, [&](PeerId task) {
      Transport& transport = network.transport(task);
      for (uint64_t i = 0; i < 20; ++i) {
        const PeerId next = (task + 1) % 4;
        EXPECT_TRUE(Send(transport, next, i).ok());
        const Status status = Recv(transport, (task + 3) % 4, i, milliseconds(5));
        logs[static_cast<size_t>(task)] +=
            std::to_string(network.now().count()) + (status.ok() ? " ok\n" : " lost\n");
      }
    });
    return logs;
  };
  const auto first = run(7);
  EXPECT_EQ(first, run(7));
  EXPECT_NE(first, run(8));
  EXPECT_NE(first[0].find("lost"), std::string::npos);
}

TEST(SimNetworkTest, TasksShareRegions) {
  SimNetwork network(Tasks(2));
  const auto region = network.transport(0).CreateRegion(4096);
  ASSERT_TRUE(region.ok());
  static_cast<char*>((*region)->data())[7] = 42;
  const auto mapped = network.transport(1).MapRegion(0, (*region)->number(), Deadline::Infinite());
  ASSERT_TRUE(mapped.ok()) << mapped.status().ToString();
  EXPECT_EQ(static_cast<char*>((*mapped)->data())[7], 42);
  EXPECT_EQ(network.transport(1).MapRegion(0, 99, Deadline::Infinite()).status().code(),
            StatusCode::kNotFound);
}

}  // namespace
}  // namespace lockstep::net
