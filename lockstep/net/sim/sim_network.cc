#include "lockstep/net/sim/sim_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "lockstep/net/internal/engine.h"
#include "lockstep/net/sim/sim_hub.h"

namespace lockstep::net {
namespace {

using internal::Frame;
using internal::FrameType;

constexpr uint64_t kEagerBytes = 8192;
constexpr uint64_t kChunkBytes = uint64_t{256} << 10;

}  // namespace

class SimNetwork::SimProgress : public Progress {
 public:
  SimProgress(std::shared_ptr<Hub> hub, PeerId task) : hub_(std::move(hub)), task_(task) {}

  Deadline::Clock::time_point Now() const override { return hub_->Now(); }

  void Await(const std::atomic<int32_t>& pending) override { hub_->Await(pending); }

  void Notify(std::atomic<int32_t>&) override { hub_->Notify(); }

  void WakeAt(Deadline::Clock::time_point when) override {
    const SimTime in = std::max(SimTime(0), SimTime(when - hub_->Now()));
    hub_->RunAt(task_, hub_->SinceStart() + in, [timer = timer_] { (*timer)(); });
  }

  void SetTimer(std::function<Deadline::Clock::time_point()> timer) override {
    *timer_ = [this, timer = std::move(timer)] {
      const auto next = timer();
      if (next != Deadline::Clock::time_point::max()) {
        WakeAt(next);
      }
    };
  }

 private:
  std::shared_ptr<Hub> hub_;
  PeerId task_;
  std::shared_ptr<std::function<void()>> timer_ = std::make_shared<std::function<void()>>();
};

class SimNetwork::SimLink : public internal::Link {
 public:
  SimLink(std::shared_ptr<Hub> hub, PeerId owner, PeerId peer, internal::LinkSink& sink)
      : hub_(std::move(hub)), owner_(owner), peer_(peer), port_(hub_->PortOf(owner, peer)) {
    port_->sink = &sink;
  }

  LinkKind kind() const override { return owner_ == peer_ ? LinkKind::kSelf : LinkKind::kSim; }

  uint64_t eager_bytes() const override { return kEagerBytes; }

  Status Start() override {
    port_->open = true;
    return OkStatus();
  }

  void SendFrame(const Frame& frame, std::span<const std::byte> body) override {
    hub_->Transmit(owner_, peer_, frame, body);
  }

  void Push(uint64_t transfer, const void* payload, uint64_t bytes,
            internal::MoveDone done) override {
    Frame frame;
    frame.type = FrameType::kData;
    frame.transfer = transfer;
    const auto* data = static_cast<const std::byte*>(payload);
    for (frame.value = 0; frame.value < bytes; frame.value += kChunkBytes) {
      hub_->Transmit(owner_, peer_, frame,
                     {data + frame.value, std::min(kChunkBytes, bytes - frame.value)});
    }
    hub_->RunSoon(owner_, [done = std::move(done)] { done(OkStatus()); });
  }

  bool CancelPush(uint64_t) override { return true; }  // the network has its copy

  void Pull(const Frame& announce, void* target, internal::MoveDone done) override {
    if (announce.header.bytes == 0) {
      hub_->RunSoon(owner_, [done] { done(OkStatus()); });
    } else {
      port_->streams.Add(announce.transfer, target, announce.header.bytes, std::move(done));
    }
    Frame pull;
    pull.type = FrameType::kPull;
    pull.transfer = announce.transfer;
    SendFrame(pull, {});
  }

  bool CancelPull(uint64_t transfer) override {
    port_->streams.Remove(transfer);
    return true;
  }

  uint64_t activity() const override { return port_->received; }

  bool Flushed() const override { return true; }

  void Close() override {
    port_->open = false;
    port_->streams.Clear();
  }

  Result<std::shared_ptr<Region>> MapRegion(uint64_t number, const Deadline&) override {
    return hub_->transport(peer_)->engine().FindRegion(number);
  }

 private:
  std::shared_ptr<Hub> hub_;
  PeerId owner_;
  PeerId peer_;
  std::shared_ptr<Hub::Port> port_;
};

SimNetwork::SimNetwork(SimOptions options) {
  LS_CHECK(options.num_tasks > 0);
  for (int task = static_cast<int>(options.names.size()); task < options.num_tasks; ++task) {
    options.names.push_back(fmt::format("/job:worker/task:{}", task));
  }
  LS_CHECK(static_cast<int>(options.names.size()) == options.num_tasks);
  hub_ = std::make_shared<Hub>(std::move(options));
  for (int task = 0; task < num_tasks(); ++task) {
    transports_.push_back(std::make_unique<Transport>(std::make_unique<SimProgress>(hub_, task),
                                                      task, hub_->options().names));
    hub_->set_transport(task, transports_.back().get());
  }
  for (int task = 0; task < num_tasks(); ++task) {
    for (int peer = 0; peer < num_tasks(); ++peer) {
      internal::Engine& engine = transports_[static_cast<size_t>(task)]->engine();
      const Status attached =
          engine.Attach(peer, static_cast<uint64_t>(peer) + 1,
                        std::make_unique<SimLink>(hub_, task, peer, engine.SinkFor(peer)));
      LS_CHECK(attached.ok());
    }
    transports_[static_cast<size_t>(task)]->engine().WatchPeers(hub_->options().heartbeat);
  }
  if (!hub_->options().virtual_time) {
    hub_->StartThread();
  }
}

SimNetwork::~SimNetwork() {
  hub_->StopThread();
  for (const auto& transport : transports_) {
    transport->Close(Deadline::After(std::chrono::milliseconds(0)));
  }
}

int SimNetwork::num_tasks() const {
  return hub_->options().num_tasks;
}

Transport& SimNetwork::transport(PeerId task) {
  return *transports_.at(static_cast<size_t>(task));
}

SimTime SimNetwork::now() const {
  return hub_->SinceStart();
}

void SimNetwork::KillTask(PeerId task, SimTime at) {
  hub_->RunAt(task, at, [hub = hub_.get(), task] { hub->KillTask(task); });
}

void SimNetwork::KillTaskAtMessage(PeerId task, int64_t message) {
  hub_->KillTaskAtMessage(task, message);
}

void SimNetwork::StopTask(PeerId task, SimTime from, SimTime until) {
  hub_->HoldTask(task, from, until);
}

void SimNetwork::DropMessage(PeerId from, PeerId to, int64_t message) {
  hub_->DropMessage(from, to, message);
}

void SimNetwork::DelayLink(PeerId from, PeerId to, SimTime delay) {
  hub_->DelayLink(from, to, delay);
}

void SimNetwork::Partition(const std::set<PeerId>& side, SimTime from, SimTime until) {
  hub_->HoldSide(side, from, until);
}

SimCounts SimNetwork::counts(PeerId from, PeerId to) const {
  return hub_->counts(from, to);
}

void SimNetwork::EnterThread() {
  hub_->EnterThread();
}

void SimNetwork::LeaveThread() {
  hub_->LeaveThread();
}

void RunTasks(SimNetwork& network, const std::function<void(PeerId)>& run) {
  for (int task = 0; task < network.num_tasks(); ++task) {
    network.EnterThread();
  }
  std::vector<std::jthread> threads;
  for (int task = 0; task < network.num_tasks(); ++task) {
    threads.emplace_back([&network, &run, task] {
      run(task);
      network.LeaveThread();
    });
  }
}

}  // namespace lockstep::net
