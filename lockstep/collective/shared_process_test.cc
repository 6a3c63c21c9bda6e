// Reductions in shared memory between real processes, of which one is killed or stopped meanwhile:
// the others are told who, in time, wherever in a call they are.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/collective/group.h"
#include "lockstep/net/testing/other_process.h"
#include "lockstep/net/wire_up.h"

namespace lockstep::collective {
namespace {

using net::PeerId;
using net::testing::OtherProcess;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kProcesses = 3;
constexpr milliseconds kHeartbeat = seconds(2);
constexpr PeerId kVictim = 2;
// Of the test's own process before the fault.
constexpr int kCallsBefore = 30;

// What is passed through the sockets between the test (task 0) and the other processes.
Status SendText(int fd, const std::string& text) {
  return net::shm::SendPacket(fd, std::as_bytes(std::span(text)), {});
}

Result<std::string> ReceiveText(int fd, const Deadline& deadline) {
  LS_ASSIGN_OR_RETURN(const net::shm::Packet packet, net::shm::ReceivePacket(fd, deadline));
  return std::string(reinterpret_cast<const char*>(packet.bytes.data()), packet.bytes.size());
}

// The test collects what all put, and tells it to the others.
class StarExchange : public net::BlobExchange {
 public:
  StarExchange(PeerId self, std::vector<int> fds) : self_(self), fds_(std::move(fds)) {}

  Status Put(std::string blob, const Deadline& deadline) override {
    blobs_[self_] = std::move(blob);
    if (self_ != 0) {
      LS_TRY(SendText(fds_[0], blobs_[self_]));
      for (PeerId task = 0; task < kProcesses; ++task) {
        LS_ASSIGN_OR_RETURN(blobs_[task], ReceiveText(fds_[0], deadline));
      }
      return OkStatus();
    }
    for (PeerId task = 1; task < kProcesses; ++task) {
      LS_ASSIGN_OR_RETURN(blobs_[task], ReceiveText(fds_[static_cast<size_t>(task) - 1], deadline));
    }
    for (const int fd : fds_) {
      for (PeerId task = 0; task < kProcesses; ++task) {
        LS_TRY(SendText(fd, blobs_[task]));
      }
    }
    return OkStatus();
  }

  Result<std::string> Get(PeerId task, const Deadline& /*deadline*/) override {
    return blobs_[task];
  }

 private:
  const PeerId self_;
  const std::vector<int> fds_;
  std::map<PeerId, std::string> blobs_;
};

struct FaultCase {
  std::string name;
  int64_t elements;
  bool mapped;  // values lie in memory that peers map
  bool killed;  // or stopped
};

void PrintTo(const FaultCase& fault, std::ostream* out) {
  *out << fault.name;
}

// Sums until that fails; `calls` counts those that went well.
Status SumOnAndOn(const FaultCase& fault, PeerId self, std::vector<int> fds,
                  std::atomic<int>* calls) {
  net::WireUpOptions options;
  options.self = self;
  options.job_secret = "secret";
  options.links = {{net::LinkKind::kShm, net::ShmFactory({})}};
  options.heartbeat = kHeartbeat;
  GroupOptions group_options{.name = "faults"};
  for (PeerId task = 0; task < kProcesses; ++task) {
    options.tasks.push_back(fmt::format("/job:worker/task:{}", task));
    group_options.tasks.push_back(task);
  }
  StarExchange exchange(self, std::move(fds));
  LS_ASSIGN_OR_RETURN(const std::unique_ptr<net::Transport> transport,
                      net::WireUp(options, exchange, Deadline::After(seconds(20))));
  LS_ASSIGN_OR_RETURN(const std::unique_ptr<Group> group,
                      Group::Create(*transport, group_options, Deadline::After(seconds(20))));
  if (!group->shares_memory()) {
    return Internal("the processes do not share memory");
  }
  const auto count = static_cast<size_t>(fault.elements);
  LS_ASSIGN_OR_RETURN(const std::shared_ptr<net::Region> region, group->Allocate(4 * count));
  std::vector<float> own(count);
  float* values = fault.mapped ? static_cast<float*>(region->data()) : own.data();
  for (;;) {
    std::fill(values, values + count, static_cast<float>(self + 1));
    LS_TRY(
        group->Run(AllReduceCall({.name = "x", .shape = Shape{fault.elements}}, {values}, values),
                   Deadline::After(seconds(60))));
    if (std::count(values, values + count, 6.0F) != fault.elements) {
      return Internal("a sum is wrong");
    }
    *calls += 1;
  }
}

class SharedProcessTest : public ::testing::TestWithParam<FaultCase> {};

TEST_P(SharedProcessTest, AllOthersAreToldWhoIsLostInTime) {
  const FaultCase& fault = GetParam();
  const auto other = [&fault](PeerId self) {
    return [&fault, self](int fd) {
      std::atomic<int> calls{0};
      // The one that the test waits for.
      static_cast<void>(SendText(fd, SumOnAndOn(fault, self, {fd}, &calls).ToString()));
    };
  };
  const OtherProcess witness(other(1));
  const OtherProcess victim(other(kVictim));
  std::atomic<int> calls{0};
  std::atomic<std::chrono::steady_clock::time_point> began{std::chrono::steady_clock::now()};
  std::jthread fate([&](const std::stop_token& stop) {
    while (calls < kCallsBefore && !stop.stop_requested()) {
      std::this_thread::yield();
    }
    if (fault.killed) {
      kill(victim.pid(), SIGKILL);
    } else {
      victim.Stop();
    }
    began = std::chrono::steady_clock::now();
  });
  const Status here = SumOnAndOn(fault, 0, {witness.fd(), victim.fd()}, &calls);
  const Result<std::string> there = ReceiveText(witness.fd(), Deadline::After(seconds(20)));
  const auto end = std::chrono::steady_clock::now();
  fate.request_stop();
  fate.join();
  const std::string lost = fmt::format("/job:worker/task:{} is lost", kVictim);
  EXPECT_EQ(here.code(), StatusCode::kUnavailable) << here.ToString();
  EXPECT_NE(here.ToString().find(lost), std::string::npos) << here.ToString();
  EXPECT_NE(here.ToString().find("all_reduce 'x'"), std::string::npos) << here.ToString();
  ASSERT_TRUE(there.ok()) << there.status().ToString();
  EXPECT_NE(there->find(lost), std::string::npos) << *there;
  EXPECT_GE(calls, kCallsBefore);
  EXPECT_LT(end - began.load(), 2 * kHeartbeat);
}

INSTANTIATE_TEST_SUITE_P(Faults, SharedProcessTest,
                         ::testing::Values(FaultCase{"small_killed", 100, false, true},
                                           FaultCase{"small_stopped", 100, false, false},
                                           FaultCase{"mapped_killed", 300'000, true, true},
                                           FaultCase{"mapped_stopped", 300'000, true, false},
                                           FaultCase{"staged_killed", 300'000, false, true},
                                           FaultCase{"staged_stopped", 300'000, false, false}),
                         [](const ::testing::TestParamInfo<FaultCase>& param) {
                           return param.param.name;
                         });

}  // namespace
}  // namespace lockstep::collective
