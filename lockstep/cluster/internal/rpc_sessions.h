// RpcSessions: the server's side of who may call. A caller says hello with a nonce and a MAC by the
// job's key, gets a nonce back, and both derive the session's key from them. Every call has a
// number of its own in its session, so that nothing can be replayed: not within a session, and not
// to another or a restarted server, which does not know it. No clock is involved. Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <string_view>

#include "lockstep/base/mutex.h"
#include "lockstep/cluster/internal/rpc_frame.h"

namespace lockstep::cluster::internal {

// The method of the first call, and what it carries: version, nonce. Its reply: session, nonce.
inline constexpr std::string_view kHelloMethod = "/lockstep.cluster.Control/Hello";
inline constexpr uint32_t kProtocolVersion = 1;
inline constexpr size_t kNonceBytes = 32;

// Says which numbers of calls were used; they come in any order within a window.
class ReplayWindow {
 public:
  // True the first time. A number far behind the greatest one is refused: it may have been used.
  bool Accept(uint64_t number);

  static constexpr uint64_t kSize = 4096;

 private:
  uint64_t greatest_ = 0;
  std::array<uint64_t, kSize / 64> seen_{};
};

class RpcSessions {
 public:
  explicit RpcSessions(std::string job_key) : job_key_(std::move(job_key)) {}

  // Answers a hello with the whole frame of the reply. UNAUTHENTICATED for another secret,
  // FAILED_PRECONDITION for another version.
  Result<std::string> Hello(const ParsedFrame& hello) LS_EXCLUDES(mu_);

  // The key by which the rest of this call is checked. UNAUTHENTICATED for an unknown session (a
  // message that starts with kUnknownSession), a wrong MAC, or a number that was used.
  Result<std::string> Admit(const ParsedFrame& first, std::string_view method) LS_EXCLUDES(mu_);

  static constexpr std::string_view kUnknownSession = "unknown session";

 private:
  struct Session {
    uint64_t id;
    std::string key;
    // Somebody has used it, who therefore knows the key.
    bool proven = false;
    ReplayWindow window;
  };

  const std::string job_key_;
  Mutex mu_;
  // Least recently used first, in each kind.
  std::list<Session> proven_ LS_GUARDED_BY(mu_);
  std::list<Session> unproven_ LS_GUARDED_BY(mu_);
  std::map<uint64_t, std::list<Session>::iterator> by_id_ LS_GUARDED_BY(mu_);
};

// The client's side: what a hello carries, and the key that its reply leads to.
struct HelloRequest {
  std::string nonce;
  std::string message;  // the whole frame
};

Result<HelloRequest> MakeHello(std::string_view job_key);

struct ClientSession {
  uint64_t id = 0;
  std::string key;
};

Result<ClientSession> ReadHelloReply(std::string_view message, std::string_view nonce,
                                     std::string_view job_key);

}  // namespace lockstep::cluster::internal
