// Two real processes over every kind of link: a peer that is killed, one that is stopped, one that
// only takes its time. The other process is this program again, since gRPC does not survive a fork.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "lockstep/net/grpc/grpc_provider.h"
#include "lockstep/net/testing/other_process.h"
#include "lockstep/net/ucx/ucx_provider.h"
#include "lockstep/net/waiter.h"
#include "lockstep/net/wire_up.h"

namespace lockstep::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Bytes;
using testing::OtherProcess;
using testing::PairExchange;

constexpr uint64_t kLargeBytes = uint64_t{64} << 20;
// Small messages, which leave at once and wait for nobody, and fill much of their window.
constexpr uint64_t kWords = 200;
constexpr uint64_t kWordBytes = 16'000;

LinkChoice ChoiceOf(const std::string& kind) {
  if (kind == "shm") {
    return {LinkKind::kShm, ShmFactory({})};
  }
  if (kind == "rings") {
    return {LinkKind::kShm, ShmFactory({.direct_reads = false})};
  }
  if (kind == "ucx") {
    return {LinkKind::kUcx, UcxFactory({.transports = "tcp,self", .net_devices = "lo"})};
  }
  return {LinkKind::kGrpc, GrpcFactory({})};
}

std::unique_ptr<Transport> Join(PeerId self, const std::string& kind, int fd,
                                milliseconds heartbeat) {
  WireUpOptions options;
  options.self = self;
  options.tasks = {"/job:worker/task:0", "/job:worker/task:1"};
  options.job_secret = "secret";
  options.links = {ChoiceOf(kind)};
  options.heartbeat = heartbeat;
  PairExchange exchange(fd);
  Result<std::unique_ptr<Transport>> transport =
      WireUp(options, exchange, Deadline::After(seconds(20)));
  if (!transport.ok()) {
    ADD_FAILURE() << transport.status().ToString();
    return nullptr;
  }
  return std::move(transport).value();
}

// Sends every message back, until its peer has gone.
int Echo(PeerId self, const std::string& kind, int fd) {
  const std::unique_ptr<Transport> transport = Join(self, kind, fd, seconds(60));
  if (transport == nullptr) {
    return 1;
  }
  std::vector<char> buffer(kLargeBytes);
  for (uint64_t item = 0;; ++item) {
    const Result<MessageHeader> header = RecvAndWait(
        *transport, 1 - self, {.item = item}, buffer.data(), buffer.size(), Deadline::Infinite());
    if (!header.ok() || !SendAndWait(*transport, 1 - self, {.item = item}, *header, buffer.data(),
                                     Deadline::Infinite())
                             .ok()) {
      return 0;
    }
  }
}

// Says much, and leaves in good order while it is being talked to.
int Leave(PeerId self, const std::string& kind, int fd) {
  const std::unique_ptr<Transport> transport = Join(self, kind, fd, seconds(60));
  if (transport == nullptr) {
    return 1;
  }
  const std::vector<char> words(kWordBytes, 'w');
  Waiter waiter(*transport);
  for (uint64_t item = 0; item < kWords; ++item) {
    transport->Send(1 - self, {.scope = 1, .item = item}, Bytes(words.size()), words.data(),
                    Deadline::After(seconds(20)), waiter.Sent());
  }
  const Status said = waiter.Wait();
  transport->Close(Deadline::After(seconds(20)));
  return said.ok() ? 0 : 1;
}

struct Case {
  std::string kind;
  PeerId self;  // of this process: the one with the higher number connects
};

void PrintTo(const Case& param, std::ostream* out) {
  *out << param.kind << param.self;
}

class ProcessTest : public ::testing::TestWithParam<Case> {
 protected:
  ProcessTest() : other_({"peer", std::to_string(peer()), GetParam().kind}) {}

  void Connect(milliseconds heartbeat) {
    transport_ = Join(GetParam().self, GetParam().kind, other_.fd(), heartbeat);
    ASSERT_NE(transport_, nullptr);
    std::vector<char> back(data_.size());
    Waiter waiter(*transport_);
    transport_->Send(peer(), {.item = 0}, Bytes(data_.size()), data_.data(),
                     Deadline::After(seconds(20)), waiter.Sent());
    transport_->Recv(peer(), {.item = 0}, back.data(), back.size(), Deadline::After(seconds(20)),
                     waiter.Received());
    const Status exchanged = waiter.Wait();
    ASSERT_TRUE(exchanged.ok()) << exchanged.ToString();
    ASSERT_EQ(data_, back);
  }

  PeerId peer() const { return 1 - GetParam().self; }

  // A receive that nothing answers, a large send that nobody asks for, and one that is under way.
  void Post(Waiter& waiter) {
    transport_->Recv(peer(), {.item = 70}, buffer_.data(), buffer_.size(),
                     Deadline::After(seconds(60)), waiter.Received());
    transport_->Send(peer(), {.item = 80}, Bytes(data_.size()), data_.data(),
                     Deadline::After(seconds(60)), waiter.Sent());
    transport_->Send(peer(), {.item = 1}, Bytes(large_.size()), large_.data(),
                     Deadline::After(seconds(60)), waiter.Sent());
  }

  void ExpectLost(const Status& status) {
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    EXPECT_NE(status.message().find(transport_->task_name(peer()) + " is lost"), std::string::npos)
        << status.ToString();
    EXPECT_EQ(transport_->num_pending(), 0);
  }

  OtherProcess other_;
  std::unique_ptr<Transport> transport_;
  std::vector<char> data_ = std::vector<char>(1 << 20, 'x');
  std::vector<char> buffer_ = std::vector<char>(1 << 20);
  std::vector<char> large_ = std::vector<char>(kLargeBytes, 'y');
};

TEST_P(ProcessTest, AKilledPeerIsNamedAtOnce) {
  Connect(seconds(60));
  Waiter waiter(*transport_);
  Post(waiter);
  const auto start = std::chrono::steady_clock::now();
  kill(other_.pid(), SIGKILL);
  ExpectLost(waiter.Wait());
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(5));
}

TEST_P(ProcessTest, AStoppedPeerIsNamedWithinTwoHeartbeats) {
  const milliseconds heartbeat = seconds(1);
  Connect(heartbeat);
  Waiter waiter(*transport_);
  Post(waiter);
  other_.Stop();
  const auto start = std::chrono::steady_clock::now();
  const Status status = waiter.Wait();
  EXPECT_LT(std::chrono::steady_clock::now() - start, 2 * heartbeat);
  ExpectLost(status);
  EXPECT_NE(status.message().find("no sign of life"), std::string::npos) << status.ToString();
}

TEST_P(ProcessTest, APeerThatTakesItsTimeIsNotLost) {
  const milliseconds heartbeat(200);
  Connect(heartbeat);
  // Nothing is sent there, so nothing comes back; the other process sleeps meanwhile.
  const Status late = RecvAndWait(*transport_, peer(), {.item = 70}, buffer_.data(), buffer_.size(),
                                  Deadline::After(5 * heartbeat))
                          .status();
  EXPECT_EQ(late.code(), StatusCode::kDeadlineExceeded) << late.ToString();
  EXPECT_TRUE(transport_->peer_status(peer()).ok());
}

TEST_P(ProcessTest, NothingIsLostThatWasSaidBeforeTheEnd) {
  const PeerId self = GetParam().self;
  for (int round = 0; round < 5; ++round) {
    OtherProcess leaving({"leave", std::to_string(1 - self), GetParam().kind});
    const auto transport = Join(self, GetParam().kind, leaving.fd(), seconds(60));
    ASSERT_NE(transport, nullptr);
    // Whatever comes after its end tells this system that the connection is broken.
    Waiter talking(*transport);
    for (uint64_t item = 0; item < kWords; ++item) {
      transport->Send(1 - self, {.scope = 2, .item = item}, Bytes(kWordBytes), data_.data(),
                      Deadline::After(seconds(20)), talking.Sent());
    }
    for (uint64_t item = 0; item < kWords; ++item) {
      const Status heard = RecvAndWait(*transport, 1 - self, {.scope = 1, .item = item},
                                       buffer_.data(), buffer_.size(), Deadline::After(seconds(20)))
                               .status();
      ASSERT_TRUE(heard.ok()) << "item " << item << ": " << heard.ToString();
    }
    (void)talking.Wait();
  }
}

INSTANTIATE_TEST_SUITE_P(Links, ProcessTest,
                         ::testing::Values(Case{"shm", 0}, Case{"rings", 0}, Case{"ucx", 0},
                                           Case{"grpc", 0}, Case{"grpc", 1}),
                         [](const ::testing::TestParamInfo<Case>& param) {
                           return param.param.kind + std::to_string(param.param.self);
                         });

}  // namespace
}  // namespace lockstep::net

int main(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == "peer") {
    return lockstep::net::Echo(std::stoi(argv[2]), argv[3], STDIN_FILENO);
  }
  if (argc == 4 && std::string(argv[1]) == "leave") {
    return lockstep::net::Leave(std::stoi(argv[2]), argv[3], STDIN_FILENO);
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
