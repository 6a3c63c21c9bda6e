// LinkProvider: makes the links of one kind for one transport. Made before addresses are exchanged,
// so that it already listens when a peer learns where.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/net/internal/engine.h"

namespace lockstep::net::internal {

struct PeerAddress {
  PeerId peer = 0;
  uint64_t incarnation = 0;
  std::string address;  // what the peer's provider of this kind answered; hostile
};

class LinkProvider {
 public:
  virtual ~LinkProvider() = default;

  virtual LinkKind kind() const = 0;
  // What a peer needs to connect.
  virtual std::string address() const = 0;
  // Links to all of `peers`, attached to `engine`. The peers' providers must be asked to connect
  // with this task too, at about the same time. May be called again, and by several threads at a
  // time, for different peers. Names who is missing when the deadline passes.
  virtual Status Connect(Engine& engine, const std::vector<PeerAddress>& peers,
                         const Deadline& deadline) = 0;
};

// What every provider must know of its own task.
struct TaskIdentity {
  PeerId self = 0;
  uint64_t incarnation = 0;
  std::string job_secret;
};

}  // namespace lockstep::net::internal
