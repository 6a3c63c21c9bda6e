// Shared memory between real processes: one that is killed, one that is stopped, one that does not
// know the secret, and regions.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/net/testing/other_process.h"
#include "lockstep/net/waiter.h"
#include "lockstep/net/wire_up.h"

namespace lockstep::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Bytes;
using testing::OtherProcess;
using testing::PairExchange;

Result<std::unique_ptr<Transport>> Join(PeerId self, int fd, const std::string& secret,
                                        bool direct = true) {
  WireUpOptions options;
  options.self = self;
  options.tasks = {"/job:worker/task:0", "/job:worker/task:1"};
  options.job_secret = secret;
  options.links = {{LinkKind::kShm, ShmFactory({.direct_reads = direct})}};
  PairExchange exchange(fd);
  return WireUp(options, exchange, Deadline::After(seconds(5)));
}

// Answers every message until it is told otherwise.
void Echo(int fd, bool direct) {
  Result<std::unique_ptr<Transport>> transport = Join(1, fd, "secret", direct);
  if (!transport.ok()) {
    return;
  }
  std::vector<char> buffer(1 << 20);
  for (uint64_t i = 0;; ++i) {
    Result<MessageHeader> header = Aborted("not yet");
    // A message that is withdrawn while it is received ends the receive, not the conversation.
    while (!header.ok() && (*transport)->peer_status(0).ok()) {
      header = RecvAndWait(**transport, 0, {.item = i}, buffer.data(), buffer.size(),
                           Deadline::Infinite());
    }
    if (!header.ok() ||
        !SendAndWait(**transport, 0, {.item = i}, *header, buffer.data(), Deadline::Infinite())
             .ok()) {
      return;
    }
  }
}

TEST(ShmProcessTest, AKilledPeerEndsWhatIsPendingAtOnce) {
  for (const bool direct : {true, false}) {
    OtherProcess other([direct](int fd) { Echo(fd, direct); });
    const auto transport = Join(0, other.fd(), "secret", direct).value();
    std::vector<char> data(1 << 20, 'x');
    std::vector<char> back(1 << 20);
    Waiter waiter(*transport);
    transport->Send(1, {.item = 0}, Bytes(data.size()), data.data(), Deadline::After(seconds(20)),
                    waiter.Sent());
    transport->Recv(1, {.item = 0}, back.data(), back.size(), Deadline::After(seconds(20)),
                    waiter.Received());
    const Status exchanged = waiter.Wait();
    ASSERT_TRUE(exchanged.ok()) << exchanged.ToString();
    EXPECT_EQ(data, back);
    // A receive that nothing answers, and a large send that nobody takes.
    transport->Recv(1, {.item = 7}, back.data(), back.size(), Deadline::After(seconds(60)),
                    waiter.Received());
    transport->Send(1, {.item = 8}, Bytes(data.size()), data.data(), Deadline::After(seconds(60)),
                    waiter.Sent());
    const auto start = std::chrono::steady_clock::now();
    kill(other.pid(), SIGKILL);
    const Status status = waiter.Wait();
    EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(5));
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    EXPECT_NE(status.message().find("/job:worker/task:1 is lost: its process has ended"),
              std::string::npos)
        << status.ToString();
  }
}

TEST(ShmProcessTest, AStoppedPeerIsLateAndMayBeGivenUp) {
  OtherProcess other([](int fd) { Echo(fd, true); });
  const auto transport = Join(0, other.fd(), "secret").value();
  other.Stop();
  std::vector<char> data(1 << 20, 'x');
  const Status late = SendAndWait(*transport, 1, {.item = 0}, Bytes(data.size()), data.data(),
                                  Deadline::After(milliseconds(100)));
  EXPECT_EQ(late.code(), StatusCode::kDeadlineExceeded) << late.ToString();
  EXPECT_TRUE(transport->peer_status(1).ok());
  // Later it goes on where it was: the withdrawn message never existed.
  kill(other.pid(), SIGCONT);
  std::vector<char> back(8);
  EXPECT_TRUE(
      SendAndWait(*transport, 1, {.item = 0}, Bytes(8), data.data(), Deadline::After(seconds(20)))
          .ok());
  EXPECT_TRUE(
      RecvAndWait(*transport, 1, {.item = 0}, back.data(), 8, Deadline::After(seconds(20))).ok());
  other.Stop();
  Waiter waiter(*transport);
  transport->Recv(1, {.item = 1}, back.data(), 8, Deadline::After(seconds(60)), waiter.Received());
  transport->FailPeer(1, Unavailable("no heartbeat for 2 s"));
  const Status status = waiter.Wait();
  EXPECT_NE(status.message().find("no heartbeat for 2 s"), std::string::npos) << status.ToString();
}

TEST(ShmProcessTest, AnotherSecretIsRefused) {
  OtherProcess other([](int fd) { Echo(fd, true); });
  const Result<std::unique_ptr<Transport>> transport = Join(0, other.fd(), "another secret");
  EXPECT_FALSE(transport.ok());
  EXPECT_NE(transport.status().ToString().find("/job:worker/task:1"), std::string::npos)
      << transport.status().ToString();
}

TEST(ShmProcessTest, RegionsAreTheSameMemory) {
  OtherProcess other([](int fd) {
    const auto transport = Join(1, fd, "secret").value();
    const auto region = transport->CreateRegion(100000).value();
    const uint64_t number = region->number();
    static_cast<std::atomic<uint32_t>*>(region->data())->store(1);
    if (!SendAndWait(*transport, 0, {}, Bytes(8), &number, Deadline::Infinite()).ok()) {
      return;
    }
    // Until the other end has written 2.
    while (static_cast<std::atomic<uint32_t>*>(region->data())->load() != 2) {
      usleep(100);
    }
    static_cast<std::atomic<uint32_t>*>(region->data())->store(3);
    pause();
  });
  const auto transport = Join(0, other.fd(), "secret").value();
  uint64_t number = 0;
  ASSERT_TRUE(
      RecvAndWait(*transport, 1, {}, &number, sizeof(number), Deadline::After(seconds(20))).ok());
  const auto region = transport->MapRegion(1, number, Deadline::After(seconds(20)));
  ASSERT_TRUE(region.ok()) << region.status().ToString();
  EXPECT_EQ((*region)->bytes(), 100000U);
  auto* word = static_cast<std::atomic<uint32_t>*>((*region)->data());
  EXPECT_EQ(word->load(), 1U);
  word->store(2);
  const Deadline deadline = Deadline::After(seconds(20));
  while (word->load() != 3 && !deadline.expired()) {
    usleep(100);
  }
  EXPECT_EQ(word->load(), 3U);
  EXPECT_EQ(transport->MapRegion(1, 12345, Deadline::After(seconds(20))).status().code(),
            StatusCode::kNotFound);
}

}  // namespace
}  // namespace lockstep::net
