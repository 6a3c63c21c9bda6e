// What reaches the port of a gRPC link and is no member of the job, or no longer speaks as one: it
// is refused, and the job goes on.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <thread>
#include <vector>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/mutex.h"
#include "lockstep/net/grpc/callback_threads.h"
#include "lockstep/net/grpc/grpc_greeting.h"
#include "lockstep/net/grpc/grpc_provider.h"
#include "lockstep/net/grpc/grpc_stream.h"
#include "lockstep/net/internal/seal.h"
#include "lockstep/net/waiter.h"

namespace lockstep::net::grpc_link {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr uint64_t kIncarnation = 77;
const std::vector<std::string> kTasks = {"/job:worker/task:0", "/job:worker/task:1"};

grpc::ByteBuffer MessageOf(const std::string& text) {
  const grpc::Slice slice(text);
  return grpc::ByteBuffer(&slice, 1);
}

// The other end of a stream, by hand.
class Caller : public StreamEvents {
 public:
  static std::shared_ptr<Caller> To(const std::string& address) {
    KeepCallbackThreads();
    auto caller = std::make_shared<Caller>();
    caller->stream_ =
        Connect(grpc::CreateChannel("ipv4:" + address, grpc::InsecureChannelCredentials()), caller);
    caller->stream_->Read();
    return caller;
  }

  void Say(const std::string& text) {
    const MutexLock lock(mu_);
    while (writing_) {
      changed_.WaitUntil(mu_, Deadline::Infinite());
    }
    writing_ = true;
    stream_->Write(MessageOf(text), false);
  }

  // The next message, or why there is none.
  Result<std::string> Hear() {
    const MutexLock lock(mu_);
    while (heard_.empty() && ended_.ok()) {
      if (!changed_.WaitUntil(mu_, Deadline::After(seconds(20)))) {
        return DeadlineExceeded("nothing came");
      }
    }
    if (heard_.empty()) {
      return ended_;
    }
    std::string text = heard_.front();
    heard_.erase(heard_.begin());
    return text;
  }

  void HangUp() { stream_->Cancel(); }

  void OnMessage(const grpc::ByteBuffer& message) override {
    std::vector<grpc::Slice> slices;
    EXPECT_TRUE(message.Dump(&slices).ok());
    std::string text;
    for (const grpc::Slice& slice : slices) {
      text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    }
    {
      const MutexLock lock(mu_);
      heard_.push_back(text);
      changed_.NotifyAll();
    }
    stream_->Read();
  }

  void OnWritten() override {
    const MutexLock lock(mu_);
    writing_ = false;
    changed_.NotifyAll();
  }

  void OnEnded(const Status& why) override {
    const MutexLock lock(mu_);
    ended_ = why;
    writing_ = false;
    changed_.NotifyAll();
  }

 private:
  std::shared_ptr<Stream> stream_;
  Mutex mu_;
  CondVar changed_;
  bool writing_ LS_GUARDED_BY(mu_) = false;
  std::vector<std::string> heard_ LS_GUARDED_BY(mu_);
  Status ended_ LS_GUARDED_BY(mu_);
};

// What task 0 and whoever plays task 1 know of each other.
class Exchange : public BlobExchange {
 public:
  Status Put(std::string blob, const Deadline& /*deadline*/) override {
    const MutexLock lock(mu_);
    mine_ = std::move(blob);
    changed_.NotifyAll();
    return OkStatus();
  }

  Result<std::string> Get(PeerId /*task*/, const Deadline& /*deadline*/) override {
    TaskAddresses theirs;
    theirs.incarnation = kIncarnation;
    theirs.host = "another host";
    theirs.links = {{LinkKind::kGrpc, "127.0.0.1:1"}};
    return EncodeTaskAddresses(theirs);
  }

  TaskAddresses Put() {
    const MutexLock lock(mu_);
    while (mine_.empty()) {
      changed_.WaitUntil(mu_, Deadline::Infinite());
    }
    return ParseTaskAddresses(mine_).value();
  }

 private:
  Mutex mu_;
  CondVar changed_;
  std::string mine_ LS_GUARDED_BY(mu_);
};

class GrpcStrangersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    thread_ = std::jthread([this] {
      WireUpOptions options;
      options.self = 0;
      options.tasks = kTasks;
      options.job_secret = "secret";
      options.links = {{LinkKind::kGrpc, GrpcFactory({})}};
      Result<std::unique_ptr<Transport>> made =
          WireUp(options, exchange_, Deadline::After(seconds(20)));
      status_ = made.status();
      if (made.ok()) {
        transport_ = std::move(made).value();
      }
    });
    const TaskAddresses task = exchange_.Put();
    address_ = task.links.at(0).address;
    incarnation_ = task.incarnation;
  }

  internal::TaskIdentity Identity(const std::string& secret) const {
    return {1, kIncarnation, secret};
  }

  // Task 1 as it should be; the job is connected afterwards.
  std::shared_ptr<Caller> Join(StreamKeys* keys) {
    auto caller = Caller::To(address_);
    const internal::TaskIdentity identity = Identity("secret");
    ConnectingGreeting greeting(identity, {0, incarnation_, ""});
    caller->Say(greeting.FirstMessage().value());
    caller->Say(greeting.OnChallenge(caller->Hear().value()).value());
    *keys = greeting.OnAccept(caller->Hear().value()).value();
    thread_.join();
    EXPECT_TRUE(status_.ok()) << status_.ToString();
    return caller;
  }

  Status RecvOne(uint64_t item) {
    char byte = 0;
    return RecvAndWait(*transport_, 1, {.item = item}, &byte, 1, Deadline::After(seconds(20)))
        .status();
  }

  Exchange exchange_;
  std::string address_;
  uint64_t incarnation_ = 0;
  Status status_;
  std::unique_ptr<Transport> transport_;
  std::jthread thread_;
};

std::string SealedFrame(internal::Seal& seal, uint64_t item) {
  internal::Frame frame;
  frame.type = internal::FrameType::kEager;
  frame.key.item = item;
  frame.header.shape = Shape{1};
  frame.header.bytes = 1;
  internal::FrameBytes bytes;
  const size_t size = internal::EncodeFrame(frame, bytes);
  std::string text(reinterpret_cast<const char*>(bytes.data()), size);
  text += 'x';
  const std::array<std::span<const std::byte>, 1> parts = {std::as_bytes(std::span(text))};
  const internal::SealCode code = seal.Next(parts).value();
  return std::string(reinterpret_cast<const char*>(code.data()), code.size()) + text;
}

TEST_F(GrpcStrangersTest, AreRefusedAndTheJobGoesOn) {
  {
    auto caller = Caller::To(address_);
    caller->Say("who is there?");
    EXPECT_EQ(caller->Hear().status().code(), StatusCode::kUnauthenticated);
  }
  std::string hello;
  {
    // It does not know the secret.
    auto caller = Caller::To(address_);
    const internal::TaskIdentity identity = Identity("another");
    ConnectingGreeting greeting(identity, {0, incarnation_, ""});
    hello = greeting.FirstMessage().value();
    caller->Say(hello);
    const Result<std::string> challenge = caller->Hear();
    ASSERT_TRUE(challenge.ok()) << challenge.status().ToString();
    EXPECT_EQ(greeting.OnChallenge(*challenge).status().code(), StatusCode::kUnauthenticated);
    caller->Say(challenge->substr(0, 8) + std::string(sizeof(internal::Proof), 'p'));
    const Status status = caller->Hear().status();
    EXPECT_EQ(status.code(), StatusCode::kUnauthenticated);
    EXPECT_NE(status.message().find("does not know the job's secret"), std::string::npos);
  }
  {
    auto caller = Caller::To(address_);
    caller->Say(std::string(4 << 20, 'x'));
    EXPECT_EQ(caller->Hear().status().code(), StatusCode::kResourceExhausted);
  }
  {
    // Bytes that are not even HTTP/2, and a connection that says nothing.
    const int colon = static_cast<int>(address_.rfind(':'));
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(static_cast<uint16_t>(std::stoi(address_.substr(colon + 1))));
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const lockstep::internal::Descriptor noisy(socket(AF_INET, SOCK_STREAM, 0));
    const lockstep::internal::Descriptor silent(socket(AF_INET, SOCK_STREAM, 0));
    for (const int fd : {noisy.get(), silent.get()}) {
      ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&where), sizeof(where)), 0);
    }
    std::array<char, 4096> noise{};
    for (size_t i = 0; i < noise.size(); ++i) {
      noise[i] = static_cast<char>(i * 7919 >> 3);
    }
    EXPECT_GT(send(noisy.get(), noise.data(), noise.size(), MSG_NOSIGNAL), 0);
    // It hangs up on us.
    while (recv(noisy.get(), noise.data(), noise.size(), 0) > 0) {
    }
  }
  StreamKeys keys{};
  const auto member = Join(&keys);
  internal::Seal seal = internal::Seal::Create(keys.send).value();
  member->Say(SealedFrame(seal, 1));
  const Status status = RecvOne(1);
  EXPECT_TRUE(status.ok()) << status.ToString();
  // What was recorded of the greeting opens nothing later.
  auto caller = Caller::To(address_);
  caller->Say(hello);
  ASSERT_TRUE(caller->Hear().ok());
  caller->Say(std::string(sizeof(uint64_t) + sizeof(internal::Proof), 'p'));
  EXPECT_EQ(caller->Hear().status().code(), StatusCode::kUnauthenticated);
  member->Say(SealedFrame(seal, 2));
  EXPECT_TRUE(RecvOne(2).ok());
  member->HangUp();
}

TEST_F(GrpcStrangersTest, RepeatedFramesEndTheLink) {
  StreamKeys keys{};
  const auto member = Join(&keys);
  internal::Seal seal = internal::Seal::Create(keys.send).value();
  const std::string frame = SealedFrame(seal, 1);
  member->Say(frame);
  EXPECT_TRUE(RecvOne(1).ok());
  member->Say(frame);
  const Status status = RecvOne(2);
  EXPECT_EQ(status.code(), StatusCode::kUnauthenticated) << status.ToString();
  EXPECT_NE(status.message().find("/job:worker/task:1 is lost"), std::string::npos);
}

TEST_F(GrpcStrangersTest, ForgedFramesEndTheLink) {
  StreamKeys keys{};
  const auto member = Join(&keys);
  internal::Seal seal = internal::Seal::Create(keys.receive).value();  // not of this direction
  member->Say(SealedFrame(seal, 1));
  const Status status = RecvOne(1);
  EXPECT_EQ(status.code(), StatusCode::kUnauthenticated) << status.ToString();
}

TEST(GrpcExposureTest, BeyondLoopbackTlsAndASecretAreNeeded) {
  const auto reactor = internal::Reactor::Create({}).value();
  const internal::TaskIdentity identity{0, 1, "secret"};
  // Of the documentation, and of no machine: what is refused is refused before anything is bound.
  const auto refused = GrpcFactory({.host = "192.0.2.1"})(identity, *reactor);
  EXPECT_EQ(refused.status().code(), StatusCode::kPermissionDenied);
  EXPECT_NE(refused.status().message().find("--insecure"), std::string::npos);
  const auto absent = GrpcFactory({.host = "192.0.2.1", .insecure = true})(identity, *reactor);
  EXPECT_EQ(absent.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(GrpcFactory({.host = "0.0.0.0", .insecure = true})(identity, *reactor).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(GrpcFactory({.certificate = "x"})(identity, *reactor).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(GrpcExposureTest, PortsComeFromTheRange) {
  const auto reactor = internal::Reactor::Create({}).value();
  const internal::TaskIdentity identity{0, 1, "secret"};
  const auto first = GrpcFactory({})(identity, *reactor).value();
  const std::string address = first->address();
  const int port = std::stoi(address.substr(address.rfind(':') + 1));
  if (port + 3 > 65535) {
    GTEST_SKIP() << "the system gave the last port";
  }
  const auto second =
      GrpcFactory({.first_port = port, .last_port = port + 3})(identity, *reactor).value();
  const int other = std::stoi(second->address().substr(address.rfind(':') + 1));
  EXPECT_GT(other, port);
  EXPECT_LE(other, port + 3);
  const auto none = GrpcFactory({.first_port = port, .last_port = port})(identity, *reactor);
  EXPECT_EQ(none.status().code(), StatusCode::kAlreadyExists);
}

}  // namespace
}  // namespace lockstep::net::grpc_link
