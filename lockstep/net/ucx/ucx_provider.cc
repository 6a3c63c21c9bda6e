#include "lockstep/net/ucx/ucx_provider.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "lockstep/net/internal/proof.h"
#include "lockstep/net/listen_point.h"
#include "lockstep/net/ucx/ucx_link.h"

namespace lockstep::net {
namespace ucx {
namespace {

struct Direction {
  int32_t from;
  int32_t to;
  uint64_t from_incarnation;
  uint64_t to_incarnation;
};

Result<std::array<uint8_t, 16>> TokenOf(const std::string& secret, const Direction& direction) {
  LS_ASSIGN_OR_RETURN(
      const internal::Proof proof,
      internal::MakeProof(secret, "ucx frame", std::as_bytes(std::span(&direction, 1))));
  std::array<uint8_t, 16> token{};
  std::copy_n(proof.begin(), token.size(), token.begin());
  return token;
}

class UcxProvider : public internal::LinkProvider {
 public:
  UcxProvider(internal::TaskIdentity identity, std::shared_ptr<UcxWorker> worker)
      : identity_(std::move(identity)), worker_(std::move(worker)) {}

  ~UcxProvider() override { worker_->Stop(); }

  LinkKind kind() const override { return LinkKind::kUcx; }

  std::string address() const override { return worker_->address(); }

  Status Connect(internal::Engine& engine, const std::vector<internal::PeerAddress>& peers,
                 const Deadline& deadline) override {
    std::vector<const UcxLink*> links;
    for (const internal::PeerAddress& peer : peers) {
      LinkTokens tokens{};
      LS_ASSIGN_OR_RETURN(tokens.mine,
                          TokenOf(identity_.job_secret, {identity_.self, peer.peer,
                                                         identity_.incarnation, peer.incarnation}));
      LS_ASSIGN_OR_RETURN(
          tokens.theirs, TokenOf(identity_.job_secret, {peer.peer, identity_.self, peer.incarnation,
                                                        identity_.incarnation}));
      Result<std::unique_ptr<UcxLink>> link = UcxLink::Create(
          worker_, identity_.self, peer.peer, peer.address, tokens, engine.SinkFor(peer.peer));
      if (!link.ok()) {
        return link.status().With(engine.tasks()[static_cast<size_t>(peer.peer)]);
      }
      UcxLink* attached = link->get();
      links.push_back(attached);
      LS_TRY(engine.Attach(peer.peer, peer.incarnation, std::move(link).value()));
      attached->Greet();
    }
    return AwaitGreetings(engine, links, deadline);
  }

 private:
  // A peer that does not greet in time is no peer: its link ends.
  Status AwaitGreetings(internal::Engine& engine, std::vector<const UcxLink*> links,
                        const Deadline& deadline) {
    Status status;
    while (status.ok()) {
      {
        const std::lock_guard<std::recursive_mutex> lock(worker_->reactor().poll_lock());
        worker_->Poll();
      }
      std::erase_if(links, [this](const UcxLink* link) { return worker_->Greeted(*link); });
      if (links.empty()) {
        return OkStatus();
      }
      std::string missing;
      for (const UcxLink* link : links) {
        const PeerId peer = link->peer();
        const Status lost = engine.peer_status(peer);
        status = status.ok() ? lost : status;
        missing += (missing.empty() ? "" : ", ") + engine.tasks()[static_cast<size_t>(peer)];
      }
      if (status.ok() && deadline.expired()) {
        status = DeadlineExceeded("did not connect over UCX: " + missing);
      }
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    for (const UcxLink* link : links) {
      engine.FailPeer(link->peer(), status);
    }
    return status;
  }

  internal::TaskIdentity identity_;
  std::shared_ptr<UcxWorker> worker_;
};

// The names of the interfaces that have one of these addresses.
Result<std::string> InterfacesOf(const std::vector<ListenPoint>& points) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    return Internal(fmt::format("the network interfaces: {}", std::strerror(errno)));
  }
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owned(list, freeifaddrs);
  std::set<std::string> names;
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr ||
        (at->ifa_addr->sa_family != AF_INET && at->ifa_addr->sa_family != AF_INET6)) {
      continue;
    }
    char host[NI_MAXHOST];
    const socklen_t size =
        at->ifa_addr->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (getnameinfo(at->ifa_addr, size, host, sizeof(host), nullptr, 0, NI_NUMERICHOST) == 0 &&
        std::any_of(points.begin(), points.end(),
                    [&host](const ListenPoint& point) { return point.host == host; })) {
      names.insert(at->ifa_name);
    }
  }
  // All of 127.0.0.0/8 is on the interface that has 127.0.0.1.
  if (names.empty() && !points.empty() && points.front().loopback) {
    names.insert("lo");
  }
  return fmt::format("{}", fmt::join(names, ","));
}

// What the host means for UCX.
Status ResolveOptions(UcxOptions& options) {
  if (options.host.empty()) {
    return OkStatus();
  }
  LS_ASSIGN_OR_RETURN(const Address address, Address::Make(options.host, 0, PortZero::kAllowed));
  LS_ASSIGN_OR_RETURN(const std::vector<ListenPoint> points, ResolveHost(address));
  for (const ListenPoint& point : points) {
    if (!point.loopback && !options.insecure) {
      return PermissionDenied(fmt::format(
          "{} is not on loopback: UCX links are not encrypted, and need --insecure there",
          options.host));
    }
  }
  LS_ASSIGN_OR_RETURN(options.net_devices, InterfacesOf(points));
  if (options.net_devices.empty()) {
    return FailedPrecondition(
        fmt::format("{}: no interface of this machine has this address", options.host));
  }
  if (options.transports.empty() && points.front().loopback) {
    options.transports = "tcp,self";
  }
  return OkStatus();
}

}  // namespace
}  // namespace ucx

LinkFactory UcxFactory(UcxOptions options) {
  return [options](const internal::TaskIdentity& identity,
                   internal::Reactor& reactor) -> Result<std::unique_ptr<internal::LinkProvider>> {
    UcxOptions resolved = options;
    LS_TRY(ucx::ResolveOptions(resolved));
    LS_ASSIGN_OR_RETURN(std::shared_ptr<ucx::UcxWorker> worker,
                        ucx::UcxWorker::Create(reactor, identity.self, resolved));
    LS_TRY(worker->Start());
    return std::unique_ptr<internal::LinkProvider>(
        std::make_unique<ucx::UcxProvider>(identity, std::move(worker)));
  };
}

}  // namespace lockstep::net
