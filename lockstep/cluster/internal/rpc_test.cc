// Server and channel over real connections on loopback.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/mutex.h"
#include "lockstep/cluster/internal/rpc_channel.h"
#include "lockstep/cluster/internal/rpc_server.h"

namespace lockstep::cluster::internal {
namespace {

using std::chrono::milliseconds;

constexpr std::string_view kEcho = "/test/Echo";
constexpr std::string_view kFail = "/test/Fail";
constexpr std::string_view kNever = "/test/Never";
constexpr std::string_view kDrop = "/test/Drop";

Deadline Soon() {
  return Deadline::After(milliseconds(20'000));
}

// Replies of calls that never end, and whether their callers have gone.
struct Kept {
  Mutex mu;
  CondVar changed;
  std::vector<std::shared_ptr<RpcReply>> replies LS_GUARDED_BY(mu);
  int cancelled LS_GUARDED_BY(mu) = 0;
};

RpcHandlers Handlers(const std::shared_ptr<Kept>& kept) {
  RpcHandlers handlers;
  handlers.emplace(kEcho, [](RpcRequest request, const std::shared_ptr<RpcReply>& reply) {
    reply->Finish(std::move(request.body));
  });
  handlers.emplace(kFail, [](RpcRequest request, const std::shared_ptr<RpcReply>& reply) {
    reply->Finish(DataLoss(std::move(request.body)).With("op MatMul 'y'").With("/job:ps/task:1"));
  });
  handlers.emplace(kDrop, [](RpcRequest, const std::shared_ptr<RpcReply>&) {});
  handlers.emplace(kNever, [kept](RpcRequest, const std::shared_ptr<RpcReply>& reply) {
    {
      const MutexLock lock(kept->mu);
      kept->replies.push_back(reply);
      kept->changed.NotifyAll();
    }
    reply->OnCancel([kept] {
      const MutexLock lock(kept->mu);
      ++kept->cancelled;
      kept->changed.NotifyAll();
    });
  });
  return handlers;
}

class RpcTest : public ::testing::Test {
 protected:
  void SetUp() override { StartServer("127.0.0.1:0"); }

  void TearDown() override { StopServer(); }

  void StartServer(const std::string& address) {
    auto server = RpcServer::Start({
        .address = net::Address::Parse(address, net::PortZero::kAllowed).value(),
        .security = {.job_secret = "secret"},
        .handlers = Handlers(kept_),
        .max_body_bytes = 16 << 20,
    });
    ASSERT_TRUE(server.ok()) << server.status().ToString();
    server_ = std::move(server).value();
    address_ = net::Address::Make("127.0.0.1", server_->port()).value();
  }

  void StopServer() {
    {
      const MutexLock lock(kept_->mu);
      kept_->replies.clear();
    }
    server_.reset();
  }

  std::shared_ptr<RpcChannel> Channel(const std::string& secret = "secret") const {
    return RpcChannel::Create(
               {.address = *address_, .peer = "/job:ps/task:0", .security = {.job_secret = secret}})
        .value();
  }

  void AwaitNever(int calls, int cancelled) {
    const MutexLock lock(kept_->mu);
    const Deadline deadline = Soon();
    while (static_cast<int>(kept_->replies.size()) < calls || kept_->cancelled < cancelled) {
      ASSERT_TRUE(kept_->changed.WaitUntil(kept_->mu, deadline));
    }
  }

  std::shared_ptr<Kept> kept_ = std::make_shared<Kept>();
  std::unique_ptr<RpcServer> server_;
  std::optional<net::Address> address_;
};

TEST_F(RpcTest, BodiesOfEverySize) {
  const auto channel = Channel();
  for (const size_t size : {size_t{0}, size_t{1}, size_t{4095}, size_t{1} << 20,
                            (size_t{1} << 20) + 1, size_t{5'000'000}}) {
    std::string body(size, '\0');
    for (size_t i = 0; i < size; ++i) {
      body[i] = static_cast<char>(i * 31 + i / 251);
    }
    const auto reply = channel->Call(kEcho, body, {.deadline = Soon()});
    ASSERT_TRUE(reply.ok()) << reply.status().ToString();
    EXPECT_TRUE(*reply == body) << size;
  }
}

TEST_F(RpcTest, ErrorsComeBackWhole) {
  const std::string message(100'000, 'm');
  const Status status = Channel()->Call(kFail, message, {.deadline = Soon()}).status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_EQ(status.message(), message);
  EXPECT_EQ(status.context(), (std::vector<std::string>{"op MatMul 'y'", "/job:ps/task:1"}));
}

TEST_F(RpcTest, UnknownMethodAndDroppedReply) {
  const auto channel = Channel();
  const Status unknown = channel->Call("/test/What", "", {.deadline = Soon()}).status();
  EXPECT_EQ(unknown.code(), StatusCode::kUnimplemented);
  EXPECT_NE(unknown.message().find("/test/What"), std::string::npos);
  EXPECT_EQ(channel->Call(kDrop, "", {.deadline = Soon()}).status().code(), StatusCode::kInternal);
}

TEST_F(RpcTest, TooLargeABody) {
  const auto channel = Channel();
  const Status status =
      channel->Call(kEcho, std::string(17 << 20, 'x'), {.deadline = Soon()}).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("larger than 16777216 bytes"), std::string::npos)
      << status.ToString();
  EXPECT_TRUE(channel->Call(kEcho, "x", {.deadline = Soon()}).ok());
}

TEST_F(RpcTest, DeadlineNamesThePeer) {
  const auto channel = Channel();
  const Status status =
      channel->Call(kNever, "", {.deadline = Deadline::After(milliseconds(50))}).status();
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(status.message().find("/job:ps/task:0"), std::string::npos);
  EXPECT_NE(status.message().find("did not answer Never"), std::string::npos);
}

TEST_F(RpcTest, CancelReachesTheServer) {
  const auto channel = Channel();
  Mutex mu;
  CondVar ended;
  std::optional<Status> result;
  const auto pending =
      channel->Start(kNever, "", {.deadline = Soon()}, [&](const Result<std::string>& reply) {
        const MutexLock lock(mu);
        result = reply.status();
        ended.NotifyAll();
      });
  AwaitNever(1, 0);
  pending->Cancel();
  AwaitNever(1, 1);
  const MutexLock lock(mu);
  while (!result) {
    ASSERT_TRUE(ended.WaitUntil(mu, Soon()));
  }
  EXPECT_EQ(result->code(), StatusCode::kCancelled);
}

TEST_F(RpcTest, NobodyListens) {
  const auto channel = Channel();
  StopServer();
  const Status status = channel->Call(kEcho, "", {.deadline = Soon()}).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_NE(status.message().find("/job:ps/task:0"), std::string::npos);
}

TEST_F(RpcTest, RestartOnTheSamePort) {
  const auto channel = Channel();
  ASSERT_TRUE(channel->Call(kEcho, "a", {.deadline = Soon()}).ok());
  for (int i = 0; i < 3; ++i) {
    StopServer();
    StartServer(address_->ToString());
    // The new server does not know the session: the channel makes a new one by itself.
    const auto reply = channel->Call(kEcho, "b", {.deadline = Soon(), .wait_for_ready = true});
    ASSERT_TRUE(reply.ok()) << reply.status().ToString();
  }
}

TEST_F(RpcTest, ManyCallsAtOnce) {
  const auto channel = Channel();
  constexpr int kCalls = 2000;
  Mutex mu;
  CondVar changed;
  int ended = 0;
  int right = 0;
  for (int i = 0; i < kCalls; ++i) {
    channel->Start(kEcho, std::to_string(i), {.deadline = Soon()},
                   [&, i](const Result<std::string>& reply) {
                     const MutexLock lock(mu);
                     right += reply.ok() && *reply == std::to_string(i) ? 1 : 0;
                     ++ended;
                     changed.NotifyAll();
                   });
  }
  const MutexLock lock(mu);
  while (ended < kCalls) {
    ASSERT_TRUE(changed.WaitUntil(mu, Soon()));
  }
  EXPECT_EQ(right, kCalls);
}

TEST_F(RpcTest, WrongSecret) {
  const Status status = Channel("other")->Call(kEcho, "", {.deadline = Soon()}).status();
  EXPECT_EQ(status.code(), StatusCode::kUnauthenticated);
  EXPECT_NE(status.message().find("does not know the secret of this job"), std::string::npos);
  EXPECT_TRUE(Channel()->Call(kEcho, "", {.deadline = Soon()}).ok());
}

TEST_F(RpcTest, RandomBytesHarmNobody) {
  const auto channel = Channel();
  ASSERT_TRUE(channel->Call(kEcho, "", {.deadline = Soon()}).ok());
  uint32_t state = 1;
  for (int i = 0; i < 20; ++i) {
    const lockstep::internal::Descriptor fd(socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(address_->port()));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
    // Half of them begin as HTTP/2 does.
    std::string bytes = i % 2 == 0 ? "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" : "";
    for (int k = 0; k < 1000; ++k) {
      state = state * 1664525 + 1013904223;
      bytes.push_back(static_cast<char>(state >> 24));
    }
    EXPECT_GT(send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), 0);
  }
  EXPECT_TRUE(channel->Call(kEcho, "", {.deadline = Soon()}).ok());
}

TEST_F(RpcTest, ProxiesOfTheEnvironmentAreIgnored) {
  for (const char* name : {"http_proxy", "https_proxy", "grpc_proxy"}) {
    setenv(name, "http://127.0.0.1:9", 1);  // NOLINT(concurrency-mt-unsafe)
  }
  const auto reply = Channel()->Call(kEcho, "", {.deadline = Soon()});
  for (const char* name : {"http_proxy", "https_proxy", "grpc_proxy"}) {
    unsetenv(name);  // NOLINT(concurrency-mt-unsafe)
  }
  EXPECT_TRUE(reply.ok()) << reply.status().ToString();
}

TEST_F(RpcTest, PortInUse) {
  const auto second = RpcServer::Start({.address = *address_});
  EXPECT_EQ(second.status().code(), StatusCode::kAlreadyExists);
}

TEST_F(RpcTest, ShutdownEndsCallsThatRun) {
  const auto channel = Channel();
  Mutex mu;
  CondVar ended;
  std::optional<Status> result;
  channel->Start(kNever, "", {.deadline = Soon()}, [&](const Result<std::string>& reply) {
    const MutexLock lock(mu);
    result = reply.status();
    ended.NotifyAll();
  });
  AwaitNever(1, 0);
  StopServer();
  const MutexLock lock(mu);
  while (!result) {
    ASSERT_TRUE(ended.WaitUntil(mu, Soon()));
  }
  EXPECT_FALSE(result->ok());
}

}  // namespace
}  // namespace lockstep::cluster::internal
