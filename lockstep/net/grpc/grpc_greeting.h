// The greeting of two tasks at the beginning of a stream: both prove that they know the job's
// secret and are who they say, and make the keys of this stream. docs/protocol.md has the messages.
//
//   connects                     accepts
//   Hello            ------->    OnHello
//   OnChallenge      <-------
//                    ------->    OnCommit
//   OnAccept         <-------    AcceptMessage, when somebody wants this link
//
// What comes from the other end is hostile. Errors: Unauthenticated. Not thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "lockstep/net/internal/link_provider.h"
#include "lockstep/net/internal/proof.h"

namespace lockstep::net::grpc_link {

struct Hello {
  uint64_t magic;
  int32_t from;
  int32_t to;
  uint64_t from_incarnation;
  uint64_t to_incarnation;
  internal::Nonce nonce;
};

struct Transcript {
  Hello hello;
  internal::Nonce nonce;
};

// Keys of the two directions.
struct StreamKeys {
  internal::Proof send;
  internal::Proof receive;
};

class ConnectingGreeting {
 public:
  ConnectingGreeting(const internal::TaskIdentity& identity, const internal::PeerAddress& peer)
      : identity_(identity), peer_(peer.peer), incarnation_(peer.incarnation) {}

  Result<std::string> FirstMessage();
  Result<std::string> OnChallenge(std::string_view message);
  Result<StreamKeys> OnAccept(std::string_view message) const;

 private:
  const internal::TaskIdentity& identity_;
  const PeerId peer_;
  const uint64_t incarnation_;
  Transcript transcript_{};
};

class AcceptingGreeting {
 public:
  explicit AcceptingGreeting(const internal::TaskIdentity& identity) : identity_(identity) {}

  Result<std::string> OnHello(std::string_view message);
  Result<StreamKeys> OnCommit(std::string_view message) const;
  static std::string AcceptMessage();

  // After OnCommit these are proven.
  PeerId peer() const { return transcript_.hello.from; }

  uint64_t incarnation() const { return transcript_.hello.from_incarnation; }

 private:
  const internal::TaskIdentity& identity_;
  Transcript transcript_{};
};

}  // namespace lockstep::net::grpc_link
