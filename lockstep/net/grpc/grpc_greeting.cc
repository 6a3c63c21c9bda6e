#include "lockstep/net/grpc/grpc_greeting.h"

#include <fmt/format.h>

#include <cstring>

namespace lockstep::net::grpc_link {
namespace {

using internal::Nonce;
using internal::Proof;

constexpr uint64_t kMagic = 0x31'43'50'52'47'4B'4C'00;  // "\0LKGRPC1"

struct Challenge {
  uint64_t magic;
  Nonce nonce;
  Proof proof;
};

struct Commit {
  uint64_t magic;
  Proof proof;
};

struct Accept {
  uint64_t magic;
};

template <class T>
std::string TextOf(const T& message) {
  return {reinterpret_cast<const char*>(&message), sizeof(message)};
}

template <class T>
Result<T> Read(std::string_view text) {
  T message{};
  if (text.size() == sizeof(message)) {
    std::memcpy(&message, text.data(), sizeof(message));
  }
  if (text.size() != sizeof(message) || message.magic != kMagic) {
    return Unauthenticated(
        fmt::format("{} bytes that are no greeting of a transport", text.size()));
  }
  return message;
}

Result<Proof> ProofOf(const internal::TaskIdentity& identity, const char* role,
                      const Transcript& transcript) {
  return internal::MakeProof(identity.job_secret, role, std::as_bytes(std::span(&transcript, 1)));
}

Status CheckProof(const internal::TaskIdentity& identity, const char* role,
                  const Transcript& transcript, const Proof& proof) {
  LS_ASSIGN_OR_RETURN(const Proof expected, ProofOf(identity, role, transcript));
  return internal::SameProof(proof, expected)
             ? OkStatus()
             : Unauthenticated("the other end does not know the job's secret");
}

Result<StreamKeys> KeysOf(const internal::TaskIdentity& identity, const Transcript& transcript,
                          bool connects) {
  StreamKeys keys{};
  Proof& forth = connects ? keys.send : keys.receive;
  Proof& back = connects ? keys.receive : keys.send;
  LS_ASSIGN_OR_RETURN(forth, ProofOf(identity, "grpc seal of who connects", transcript));
  LS_ASSIGN_OR_RETURN(back, ProofOf(identity, "grpc seal of who accepts", transcript));
  return keys;
}

}  // namespace

Result<std::string> ConnectingGreeting::FirstMessage() {
  transcript_.hello = {kMagic, identity_.self, peer_, identity_.incarnation, incarnation_, {}};
  LS_ASSIGN_OR_RETURN(transcript_.hello.nonce, internal::MakeNonce());
  return TextOf(transcript_.hello);
}

Result<std::string> ConnectingGreeting::OnChallenge(std::string_view message) {
  LS_ASSIGN_OR_RETURN(const Challenge challenge, Read<Challenge>(message));
  transcript_.nonce = challenge.nonce;
  LS_TRY(CheckProof(identity_, "grpc accepts", transcript_, challenge.proof));
  Commit commit{kMagic, {}};
  LS_ASSIGN_OR_RETURN(commit.proof, ProofOf(identity_, "grpc connects", transcript_));
  return TextOf(commit);
}

Result<StreamKeys> ConnectingGreeting::OnAccept(std::string_view message) const {
  LS_TRY(Read<Accept>(message).status());
  return KeysOf(identity_, transcript_, true);
}

Result<std::string> AcceptingGreeting::OnHello(std::string_view message) {
  LS_ASSIGN_OR_RETURN(transcript_.hello, Read<Hello>(message));
  if (transcript_.hello.to != identity_.self ||
      transcript_.hello.to_incarnation != identity_.incarnation) {
    return Unauthenticated("this is another task, or it was restarted");
  }
  Challenge challenge{kMagic, {}, {}};
  LS_ASSIGN_OR_RETURN(challenge.nonce, internal::MakeNonce());
  transcript_.nonce = challenge.nonce;
  LS_ASSIGN_OR_RETURN(challenge.proof, ProofOf(identity_, "grpc accepts", transcript_));
  return TextOf(challenge);
}

Result<StreamKeys> AcceptingGreeting::OnCommit(std::string_view message) const {
  LS_ASSIGN_OR_RETURN(const Commit commit, Read<Commit>(message));
  LS_TRY(CheckProof(identity_, "grpc connects", transcript_, commit.proof));
  return KeysOf(identity_, transcript_, false);
}

std::string AcceptingGreeting::AcceptMessage() {
  return TextOf(Accept{kMagic});
}

}  // namespace lockstep::net::grpc_link
