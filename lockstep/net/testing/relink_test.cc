// Links of every kind that break between two tasks which go on, and are made again.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <thread>

#include "lockstep/net/grpc/grpc_provider.h"
#include "lockstep/net/testing/shared_book.h"
#include "lockstep/net/ucx/ucx_provider.h"
#include "lockstep/net/waiter.h"

namespace lockstep::net {
namespace {

using std::chrono::milliseconds;

Deadline Soon() {
  return Deadline::After(milliseconds(20'000));
}

LinkChoice ChoiceOf(const std::string& kind) {
  if (kind == "shm") {
    return {LinkKind::kShm, ShmFactory({})};
  }
  if (kind == "ucx") {
    return {LinkKind::kUcx, UcxFactory({.host = "127.0.0.1"})};
  }
  return {LinkKind::kGrpc, GrpcFactory({})};
}

class RelinkTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    PeerLinksOptions options;
    options.tasks = {"/job:worker/task:0", "/job:worker/task:1"};
    options.job_secret = "the secret of this test";
    options.links = {ChoiceOf(GetParam())};
    for (const PeerId self : {0, 1}) {
      options.self = self;
      options.incarnation = Incarnation(self);
      books_.push_back(
          std::make_unique<testing::SharedBook::End>(book_, self, options.incarnation));
      links_.push_back(PeerLinks::Create(options, *books_.back()).value());
    }
  }

  static uint64_t Incarnation(PeerId task) { return 100 + static_cast<uint64_t>(task); }

  // Both ends at once. One that has not noticed the loss yet thinks that all is well; then again.
  Status Connect() {
    Status status;
    for (int attempt = 0; attempt < 50; ++attempt) {
      Status results[2];
      std::vector<std::thread> threads;
      for (const PeerId self : {0, 1}) {
        threads.emplace_back([this, self, &result = results[self]] {
          result = links_[static_cast<size_t>(self)]->Connect(
              {{.peer = 1 - self, .incarnation = Incarnation(1 - self)}},
              Deadline::After(milliseconds(400)));
        });
      }
      for (std::thread& thread : threads) {
        thread.join();
      }
      status = results[0].ok() ? results[1] : results[0];
      if (status.ok() && transport(0).peer_status(1).ok() && transport(1).peer_status(0).ok()) {
        return status;
      }
    }
    return status.ok() ? Unavailable("an end is lost again and again") : status;
  }

  Transport& transport(PeerId task) { return *links_[static_cast<size_t>(task)]->transport(); }

  // Some messages each way, with tensors that are large and small.
  void ExpectLinked(uint64_t step) {
    for (const PeerId from : {0, 1}) {
      for (const int64_t elements : {2, 100'000, 0, 3}) {
        const MessageKey key{.scope = 1, .step = step, .item = static_cast<uint64_t>(elements)};
        const Tensor tensor = Tensor::Zeros(DType::kFloat32, {elements}).value();
        for (float& value : tensor.values<float>()) {
          value = static_cast<float>(step) + 0.5F;
        }
        net::Waiter waiter(transport(from));
        transport(from).Send(1 - from, key, HeaderOf(tensor), tensor.data(), Soon(), waiter.Sent());
        const Result<Tensor> got = RecvTensor(transport(1 - from), from, key, Soon());
        ASSERT_TRUE(got.ok()) << got.status().ToString();
        EXPECT_EQ(got->ToDoubles(), tensor.ToDoubles());
        const Status sent = waiter.Wait();
        ASSERT_TRUE(sent.ok()) << sent.ToString();
      }
    }
  }

  testing::SharedBook book_;
  std::vector<std::unique_ptr<testing::SharedBook::End>> books_;
  std::vector<std::unique_ptr<PeerLinks>> links_;
};

TEST_P(RelinkTest, AgainAndAgainWhoeverLosesIt) {
  const Status first = Connect();
  ASSERT_TRUE(first.ok()) << first.ToString();
  for (int round = 0; round < 6; ++round) {
    ExpectLinked(static_cast<uint64_t>(round));
    const PeerId self = round % 2;
    transport(self).FailPeer(1 - self, Unavailable("of this test"));
    EXPECT_EQ(transport(self).peer_status(1 - self).code(), StatusCode::kUnavailable);
    const Status again = Connect();
    ASSERT_TRUE(again.ok()) << again.ToString();
  }
  ExpectLinked(100);
}

TEST_P(RelinkTest, WhatIsUnderWayFailsWithThePeersName) {
  ASSERT_TRUE(Connect().ok());
  const std::vector<char> payload(size_t{1} << 20);
  MessageHeader header;
  header.dtype = DType::kUInt8;
  header.shape = Shape{static_cast<int64_t>(payload.size())};
  header.bytes = payload.size();
  net::Waiter sending(transport(0));
  transport(0).Send(1, {.scope = 9}, header, payload.data(), Soon(), sending.Sent());
  net::Waiter receiving(transport(1));
  char byte = 0;
  transport(1).Recv(0, {.scope = 8}, &byte, 1, Soon(), receiving.Received());
  transport(0).FailPeer(1, Unavailable("of this test"));
  const Status sent = sending.Wait();
  EXPECT_EQ(sent.code(), StatusCode::kUnavailable) << sent.ToString();
  EXPECT_NE(sent.ToString().find("/job:worker/task:1"), std::string::npos) << sent.ToString();
  const Status received = receiving.Wait();
  EXPECT_EQ(received.code(), StatusCode::kUnavailable) << received.ToString();
  EXPECT_NE(received.ToString().find("/job:worker/task:0"), std::string::npos)
      << received.ToString();
  const Status again = Connect();
  ASSERT_TRUE(again.ok()) << again.ToString();
  ExpectLinked(1);
}

INSTANTIATE_TEST_SUITE_P(Links, RelinkTest, ::testing::Values("shm", "ucx", "grpc"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace lockstep::net
