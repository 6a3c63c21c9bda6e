// The end of one link in its engine. After a link is lost its sink lets nothing through, so that
// what a former incarnation of a peer sent late never mixes with what its successor sends.
#pragma once

#include "lockstep/net/internal/engine.h"

namespace lockstep::net::internal {

class Engine::Sink : public LinkSink {
 public:
  Sink(Engine& engine, PeerId sink_peer) : peer(sink_peer), engine_(engine) {}

  Status OnFrame(const Frame& frame, std::span<const std::byte> body) override {
    return engine_.OnFrame(*this, frame, body);
  }

  void OnDown(Status why) override { engine_.OnDown(*this, why); }

  const PeerId peer;

 private:
  Engine& engine_;
};

}  // namespace lockstep::net::internal
