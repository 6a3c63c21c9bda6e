// UcxWorker: one UCX worker, which the links of a transport share. UCX calls back while it makes
// progress, with the worker's lock; what arrived is handed on only after that lock is released,
// because the engine takes its own lock and then sends.
#pragma once

#include <ucp/api/ucp.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/net/internal/link.h"
#include "lockstep/net/internal/reactor.h"
#include "lockstep/net/ucx/ucx_provider.h"

namespace lockstep::net::ucx {

class UcxLink;

// In front of every frame. Each end of a link has a number of its own; 0 while it is not known.
struct Envelope {
  int32_t from;
  int32_t to;
  std::array<uint8_t, 16> token;
  uint64_t link;  // the sender's
  uint64_t echo;  // the receiver's, as the sender knows it
};

class UcxWorker : public internal::Poller, public std::enable_shared_from_this<UcxWorker> {
 public:
  static Result<std::shared_ptr<UcxWorker>> Create(internal::Reactor& reactor, PeerId self,
                                                   const UcxOptions& options);

  UcxWorker(internal::Reactor& reactor, PeerId self) : reactor_(reactor), self_(self) {}

  ~UcxWorker() override;

  std::string address() const { return address_; }

  Status Start();
  void Stop();

  ucp_worker_h worker() const { return worker_; }

  std::recursive_mutex& lock() { return lock_; }

  internal::Reactor& reactor() { return reactor_; }

  void AddLink(UcxLink* link);
  // True if the peer of this link has said that it knows it.
  bool Greeted(const UcxLink& link);
  void RemoveLink(UcxLink* link);
  // With the lock: what UCX reported of a link, to be handed on later.
  void Report(UcxLink* link, std::vector<std::byte> frame, Status down);

  // With the lock, outside of UCX's callbacks.
  void ProgressOnce() { ucp_worker_progress(worker_); }

  bool Poll() override;
  bool PrepareSleep() override;

  void Awake() override {}

 private:
  struct Arrival {
    UcxLink* link;
    std::vector<std::byte> frame;
    Status down;
  };

  static ucs_status_t OnGreeting(void* self, const void* header, size_t header_bytes, void* data,
                                 size_t bytes, const ucp_am_recv_param_t* param);
  static ucs_status_t OnEnd(void* self, const void* header, size_t header_bytes, void* data,
                            size_t bytes, const ucp_am_recv_param_t* param);
  static ucs_status_t OnMessage(void* self, const void* header, size_t header_bytes, void* data,
                                size_t bytes, const ucp_am_recv_param_t* param);

  std::optional<Arrival> NextArrival();
  // The link at whose other end this was sent; null if there is none. With the lock.
  UcxLink* Expecting(const void* header, size_t header_bytes) const;

  internal::Reactor& reactor_;
  const PeerId self_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  std::string address_;
  int event_fd_ = -1;
  bool started_ = false;
  // Taken after the engine's lock, never before it.
  std::recursive_mutex lock_;
  std::map<PeerId, UcxLink*> links_;
  std::deque<Arrival> arrivals_;
  std::map<PeerId, Envelope> greetings_;  // the last one of each, for links that are to come
};

Status UcxError(const char* what, ucs_status_t status);

}  // namespace lockstep::net::ucx
