// Signatures on the wire.
#pragma once

#include "lockstep/cluster/internal/control.pb.h"
#include "lockstep/cluster/master/master_interface.h"

namespace lockstep::cluster::internal {

inline void ToWire(const SignatureNames& names, wire::SignatureMessage& message) {
  message.mutable_feeds()->Assign(names.feeds.begin(), names.feeds.end());
  message.mutable_fetches()->Assign(names.fetches.begin(), names.fetches.end());
  message.mutable_targets()->Assign(names.targets.begin(), names.targets.end());
}

inline SignatureNames FromWire(const wire::SignatureMessage& message) {
  return {.feeds = {message.feeds().begin(), message.feeds().end()},
          .fetches = {message.fetches().begin(), message.fetches().end()},
          .targets = {message.targets().begin(), message.targets().end()}};
}

}  // namespace lockstep::cluster::internal
