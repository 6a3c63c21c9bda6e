#include "lockstep/cluster/internal/rpc_sessions.h"

#include <fmt/format.h>

#include "lockstep/base/hmac.h"
#include "lockstep/cluster/internal/bytes.h"

namespace lockstep::cluster::internal {
namespace {

// Enough for every task of the greatest cluster with several channels each; beyond, the least
// recently used goes, and its owner says hello again.
constexpr size_t kMaxProven = 1 << 18;
// Sessions that nobody has used: little, because a hello can be replayed.
constexpr size_t kMaxUnproven = 1 << 12;

Result<std::string> Nonce() {
  std::array<uint8_t, kNonceBytes> nonce{};
  LS_TRY(FillRandom(nonce));
  return std::string(nonce.begin(), nonce.end());
}

// The reply to a hello is bound to it by the nonce, which stands where the method does.
std::string ReplyContext(std::string_view nonce) {
  return std::string(kHelloMethod).append(nonce);
}

}  // namespace

bool ReplayWindow::Accept(uint64_t number) {
  const auto bit = [](uint64_t n) { return uint64_t{1} << (n % 64); };
  const auto word = [this](uint64_t n) -> uint64_t& { return seen_[(n % kSize) / 64]; };
  if (number == 0 || number + kSize <= greatest_) {
    return false;
  }
  if (number > greatest_) {
    if (number - greatest_ >= kSize) {
      seen_.fill(0);
    } else {
      for (uint64_t n = greatest_ + 1; n < number; ++n) {
        word(n) &= ~bit(n);
      }
    }
    greatest_ = number;
    word(number) |= bit(number);
    return true;
  }
  if ((word(number) & bit(number)) != 0) {
    return false;
  }
  word(number) |= bit(number);
  return true;
}

Result<std::string> RpcSessions::Hello(const ParsedFrame& hello) {
  ByteReader reader(hello.payload);
  const uint32_t version = reader.U32();
  const std::string_view client_nonce = reader.Bytes(kNonceBytes);
  if (!reader.ok() || !reader.rest().empty() || !hello.frame.last || hello.frame.reply) {
    return InvalidArgument("a malformed hello");
  }
  if (version != kProtocolVersion) {
    return FailedPrecondition(
        fmt::format("version {} of the control protocol, expected {}", version, kProtocolVersion));
  }
  if (!CheckFrame(hello, kHelloMethod, job_key_).ok()) {
    return Unauthenticated("the caller does not know the secret of this job");
  }
  LS_ASSIGN_OR_RETURN(const std::string server_nonce, Nonce());
  Session session;
  LS_ASSIGN_OR_RETURN(session.id, RandomNonZero());
  LS_ASSIGN_OR_RETURN(session.key, SessionKey(job_key_, client_nonce, server_nonce));
  ByteWriter writer;
  writer.U64(session.id);
  writer.Bytes(server_nonce);
  const std::string payload = writer.Take();
  LS_ASSIGN_OR_RETURN(std::string message,
                      FrameHeader({.reply = true}, ReplyContext(client_nonce), payload, job_key_));
  message += payload;
  const MutexLock lock(mu_);
  if (unproven_.size() >= kMaxUnproven) {
    by_id_.erase(unproven_.front().id);
    unproven_.pop_front();
  }
  unproven_.push_back(std::move(session));
  by_id_[unproven_.back().id] = std::prev(unproven_.end());
  return message;
}

Result<std::string> RpcSessions::Admit(const ParsedFrame& first, std::string_view method) {
  std::string key;
  {
    const MutexLock lock(mu_);
    const auto found = by_id_.find(first.frame.session);
    if (found == by_id_.end()) {
      return Unauthenticated(fmt::format("{} {:x}", kUnknownSession, first.frame.session));
    }
    key = found->second->key;
  }
  LS_TRY(CheckFrame(first, method, key));
  const MutexLock lock(mu_);
  const auto found = by_id_.find(first.frame.session);
  if (found == by_id_.end()) {
    return Unauthenticated(fmt::format("{} {:x}", kUnknownSession, first.frame.session));
  }
  const auto session = found->second;
  if (!session->window.Accept(first.frame.call)) {
    return Unauthenticated(fmt::format("call {} of this session came before: a replay, or too late",
                                       first.frame.call));
  }
  proven_.splice(proven_.end(), session->proven ? proven_ : unproven_, session);
  session->proven = true;
  if (proven_.size() > kMaxProven) {
    by_id_.erase(proven_.front().id);
    proven_.pop_front();
  }
  return key;
}

Result<HelloRequest> MakeHello(std::string_view job_key) {
  HelloRequest hello;
  LS_ASSIGN_OR_RETURN(hello.nonce, Nonce());
  ByteWriter writer;
  writer.U32(kProtocolVersion);
  writer.Bytes(hello.nonce);
  const std::string payload = writer.Take();
  LS_ASSIGN_OR_RETURN(hello.message, FrameHeader({}, kHelloMethod, payload, job_key));
  hello.message += payload;
  return hello;
}

Result<ClientSession> ReadHelloReply(std::string_view message, std::string_view nonce,
                                     std::string_view job_key) {
  LS_ASSIGN_OR_RETURN(const ParsedFrame reply, ParseFrame(message));
  if (!reply.frame.reply || !CheckFrame(reply, ReplyContext(nonce), job_key).ok()) {
    return Unauthenticated("the server does not know the secret of this job");
  }
  ByteReader reader(reply.payload);
  ClientSession session;
  session.id = reader.U64();
  const std::string_view server_nonce = reader.Bytes(kNonceBytes);
  if (!reader.ok() || !reader.rest().empty()) {
    return InvalidArgument("a malformed reply to a hello");
  }
  LS_ASSIGN_OR_RETURN(session.key, SessionKey(job_key, nonce, server_nonce));
  return session;
}

}  // namespace lockstep::cluster::internal
