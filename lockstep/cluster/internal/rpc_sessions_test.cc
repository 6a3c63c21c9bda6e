#include "lockstep/cluster/internal/rpc_sessions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace lockstep::cluster::internal {
namespace {

constexpr std::string_view kAdmittedMethod = "/a/B";

std::string JobKeyOf(std::string_view secret) {
  return JobKey(secret).value();
}

Result<ClientSession> Connect(RpcSessions& sessions, std::string_view job_key) {
  LS_ASSIGN_OR_RETURN(const HelloRequest hello, MakeHello(job_key));
  LS_ASSIGN_OR_RETURN(const ParsedFrame parsed, ParseFrame(hello.message));
  LS_ASSIGN_OR_RETURN(const std::string reply, sessions.Hello(parsed));
  return ReadHelloReply(reply, hello.nonce, job_key);
}

Status CallOnce(RpcSessions& sessions, const ClientSession& session, uint64_t number) {
  const RpcFrame frame{.session = session.id, .call = number};
  const std::string message = FrameHeader(frame, kAdmittedMethod, "", session.key).value();
  LS_ASSIGN_OR_RETURN(const ParsedFrame parsed, ParseFrame(message));
  return sessions.Admit(parsed, kAdmittedMethod).status();
}

TEST(RpcSessionsTest, BothEndsHaveOneKey) {
  RpcSessions sessions(JobKeyOf("s"));
  const auto session = Connect(sessions, JobKeyOf("s"));
  ASSERT_TRUE(session.ok()) << session.status().ToString();
  EXPECT_TRUE(CallOnce(sessions, *session, 1).ok());
  EXPECT_TRUE(CallOnce(sessions, *session, 2).ok());
}

TEST(RpcSessionsTest, WrongSecretOfTheCaller) {
  RpcSessions sessions(JobKeyOf("s"));
  EXPECT_EQ(Connect(sessions, JobKeyOf("t")).status().code(), StatusCode::kUnauthenticated);
}

TEST(RpcSessionsTest, WrongSecretOfTheServer) {
  const HelloRequest hello = MakeHello(JobKeyOf("s")).value();
  RpcSessions impostor(JobKeyOf("t"));
  // It accepts everybody, and still cannot answer.
  const HelloRequest other = MakeHello(JobKeyOf("t")).value();
  const std::string reply = impostor.Hello(ParseFrame(other.message).value()).value();
  EXPECT_EQ(ReadHelloReply(reply, hello.nonce, JobKeyOf("s")).status().code(),
            StatusCode::kUnauthenticated);
}

TEST(RpcSessionsTest, ReplayedReplyToAHello) {
  RpcSessions sessions(JobKeyOf("s"));
  const HelloRequest first = MakeHello(JobKeyOf("s")).value();
  const std::string reply = sessions.Hello(ParseFrame(first.message).value()).value();
  const HelloRequest second = MakeHello(JobKeyOf("s")).value();
  EXPECT_FALSE(ReadHelloReply(reply, second.nonce, JobKeyOf("s")).ok());
}

TEST(RpcSessionsTest, ReplaysAreRefused) {
  RpcSessions sessions(JobKeyOf("s"));
  const ClientSession session = Connect(sessions, JobKeyOf("s")).value();
  ASSERT_TRUE(CallOnce(sessions, session, 5).ok());
  EXPECT_EQ(CallOnce(sessions, session, 5).code(), StatusCode::kUnauthenticated);
  EXPECT_TRUE(CallOnce(sessions, session, 3).ok());
  EXPECT_EQ(CallOnce(sessions, session, 3).code(), StatusCode::kUnauthenticated);
  EXPECT_EQ(CallOnce(sessions, session, 0).code(), StatusCode::kUnauthenticated);
}

TEST(RpcSessionsTest, AForgedCallUsesUpNothing) {
  RpcSessions sessions(JobKeyOf("s"));
  ClientSession session = Connect(sessions, JobKeyOf("s")).value();
  ClientSession forged = session;
  forged.key = "guess";
  EXPECT_EQ(CallOnce(sessions, forged, 1).code(), StatusCode::kUnauthenticated);
  EXPECT_TRUE(CallOnce(sessions, session, 1).ok());
}

TEST(RpcSessionsTest, SessionsOfAnotherServerAreUnknown) {
  RpcSessions before(JobKeyOf("s"));
  RpcSessions after(JobKeyOf("s"));
  const ClientSession session = Connect(before, JobKeyOf("s")).value();
  const Status status = CallOnce(after, session, 1);
  EXPECT_EQ(status.code(), StatusCode::kUnauthenticated);
  EXPECT_EQ(status.message().rfind(RpcSessions::kUnknownSession, 0), 0U);
}

TEST(RpcSessionsTest, FloodOfHellosLeavesUsedSessionsAlone) {
  RpcSessions sessions(JobKeyOf("s"));
  const ClientSession used = Connect(sessions, JobKeyOf("s")).value();
  ASSERT_TRUE(CallOnce(sessions, used, 1).ok());
  const ClientSession unused = Connect(sessions, JobKeyOf("s")).value();
  const HelloRequest hello = MakeHello(JobKeyOf("s")).value();
  const ParsedFrame parsed = ParseFrame(hello.message).value();
  for (int i = 0; i < 5000; ++i) {
    ASSERT_TRUE(sessions.Hello(parsed).ok());
  }
  EXPECT_TRUE(CallOnce(sessions, used, 2).ok());
  EXPECT_FALSE(CallOnce(sessions, unused, 1).ok());
}

// Against a plain set of the numbers that were accepted.
TEST(ReplayWindowTest, AcceptsEachNumberOnce) {
  ReplayWindow window;
  std::vector<uint64_t> accepted;
  uint64_t greatest = 0;
  uint64_t state = 12345;
  for (int i = 0; i < 20'000; ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    const uint64_t number = 1 + static_cast<uint64_t>(i) / 2 + (state >> 33) % 6000;
    const bool used = std::find(accepted.begin(), accepted.end(), number) != accepted.end();
    const bool old = number + ReplayWindow::kSize <= greatest;
    EXPECT_EQ(window.Accept(number), !used && !old) << number;
    if (!used && !old) {
      accepted.push_back(number);
      greatest = std::max(greatest, number);
    }
  }
}

}  // namespace
}  // namespace lockstep::cluster::internal
