#include "lockstep/net/grpc/grpc_greeting.h"

#include <gtest/gtest.h>

namespace lockstep::net::grpc_link {
namespace {

const internal::TaskIdentity kTwo{2, 222, "secret"};
const internal::TaskIdentity kOne{1, 111, "secret"};
const internal::PeerAddress kToOne{1, 111, ""};

// All messages in turn.
Status Greet(ConnectingGreeting& connecting, AcceptingGreeting& accepting, StreamKeys* mine,
             StreamKeys* theirs) {
  LS_ASSIGN_OR_RETURN(const std::string hello, connecting.FirstMessage());
  LS_ASSIGN_OR_RETURN(const std::string challenge, accepting.OnHello(hello));
  LS_ASSIGN_OR_RETURN(const std::string commit, connecting.OnChallenge(challenge));
  LS_ASSIGN_OR_RETURN(*theirs, accepting.OnCommit(commit));
  LS_ASSIGN_OR_RETURN(*mine, connecting.OnAccept(AcceptingGreeting::AcceptMessage()));
  return OkStatus();
}

TEST(GrpcGreetingTest, BothEndsAgree) {
  ConnectingGreeting connecting(kTwo, kToOne);
  AcceptingGreeting accepting(kOne);
  StreamKeys mine{};
  StreamKeys theirs{};
  ASSERT_TRUE(Greet(connecting, accepting, &mine, &theirs).ok());
  EXPECT_EQ(accepting.peer(), 2);
  EXPECT_EQ(accepting.incarnation(), 222U);
  EXPECT_EQ(mine.send, theirs.receive);
  EXPECT_EQ(mine.receive, theirs.send);
  EXPECT_NE(mine.send, mine.receive);
  // The next stream has other keys.
  StreamKeys later{};
  ConnectingGreeting again(kTwo, kToOne);
  AcceptingGreeting accepting_again(kOne);
  ASSERT_TRUE(Greet(again, accepting_again, &later, &theirs).ok());
  EXPECT_NE(later.send, mine.send);
}

TEST(GrpcGreetingTest, AnotherSecretIsRefusedByBothEnds) {
  const internal::TaskIdentity other{2, 222, "another"};
  ConnectingGreeting connecting(other, kToOne);
  AcceptingGreeting accepting(kOne);
  const std::string challenge = accepting.OnHello(connecting.FirstMessage().value()).value();
  EXPECT_EQ(connecting.OnChallenge(challenge).status().code(), StatusCode::kUnauthenticated);
  // One that goes on all the same.
  const std::string commit(sizeof(uint64_t) + sizeof(internal::Proof), '\0');
  EXPECT_EQ(accepting.OnCommit(commit).status().code(), StatusCode::kUnauthenticated);
}

TEST(GrpcGreetingTest, AnotherTaskOrIncarnationIsRefused) {
  for (const internal::PeerAddress& wrong :
       {internal::PeerAddress{0, 111, ""}, internal::PeerAddress{1, 112, ""}}) {
    ConnectingGreeting connecting(kTwo, wrong);
    AcceptingGreeting accepting(kOne);
    EXPECT_EQ(accepting.OnHello(connecting.FirstMessage().value()).status().code(),
              StatusCode::kUnauthenticated);
  }
}

TEST(GrpcGreetingTest, WhatWasRecordedProvesNothing) {
  ConnectingGreeting connecting(kTwo, kToOne);
  AcceptingGreeting accepting(kOne);
  const std::string hello = connecting.FirstMessage().value();
  const std::string commit = connecting.OnChallenge(accepting.OnHello(hello).value()).value();
  ASSERT_TRUE(accepting.OnCommit(commit).ok());
  AcceptingGreeting again(kOne);
  ASSERT_TRUE(again.OnHello(hello).ok());
  EXPECT_EQ(again.OnCommit(commit).status().code(), StatusCode::kUnauthenticated);
  // Nor can the challenge of one end serve as the answer of the other.
  AcceptingGreeting reflected(kOne);
  const std::string challenge = reflected.OnHello(hello).value();
  const std::string answer = challenge.substr(0, 8) + challenge.substr(8 + sizeof(internal::Nonce));
  EXPECT_EQ(reflected.OnCommit(answer).status().code(), StatusCode::kUnauthenticated);
}

TEST(GrpcGreetingTest, EverythingElseIsNoGreeting) {
  ConnectingGreeting connecting(kTwo, kToOne);
  std::string hello = connecting.FirstMessage().value();
  for (const std::string& message :
       {std::string(), hello.substr(1), hello + "x", std::string(hello.size(), 'x')}) {
    AcceptingGreeting accepting(kOne);
    EXPECT_EQ(accepting.OnHello(message).status().code(), StatusCode::kUnauthenticated);
    EXPECT_EQ(connecting.OnChallenge(message).status().code(), StatusCode::kUnauthenticated);
  }
  EXPECT_FALSE(connecting.OnAccept("12345678").ok());
}

}  // namespace
}  // namespace lockstep::net::grpc_link
