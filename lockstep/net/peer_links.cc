#include "lockstep/net/peer_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lockstep/net/internal/self_link.h"

namespace lockstep::net {
namespace {

constexpr std::string_view kOfferTopic = "offer";
// Of an offer, and of an address with what stands before it.
constexpr size_t kMaxTextBytes = size_t{1} << 20;
// Before an address, and before the reason why there is none.
constexpr char kHere = '+';
constexpr char kMissing = '-';

constexpr LinkKind kBestFirst[] = {LinkKind::kShm, LinkKind::kUcx, LinkKind::kGrpc};

std::string NamesOf(const std::vector<LinkKind>& kinds) {
  std::string names;
  for (const LinkKind kind : kinds) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", LinkKindName(kind));
  }
  return names.empty() ? "none" : names;
}

}  // namespace

Result<std::unique_ptr<PeerLinks>> PeerLinks::Create(PeerLinksOptions options, AddressBook& book) {
  LS_ASSIGN_OR_RETURN(std::unique_ptr<internal::Reactor> made,
                      internal::Reactor::Create(options.reactor));
  internal::Reactor& reactor = *made;
  auto transport = std::make_shared<Transport>(std::move(made), options.self, options.tasks);
  internal::Engine& engine = transport->engine();
  LS_TRY(
      engine.Attach(options.self, options.incarnation,
                    std::make_unique<internal::SelfLink>(reactor, engine.SinkFor(options.self))));
  engine.WatchPeers(options.heartbeat);
  return std::make_unique<PeerLinks>(std::move(options), book, std::move(transport), reactor);
}

PeerLinks::PeerLinks(PeerLinksOptions options, AddressBook& book,
                     std::shared_ptr<Transport> transport, internal::Reactor& reactor)
    : options_(std::move(options)),
      book_(book),
      transport_(std::move(transport)),
      reactor_(reactor),
      identity_{options_.self, options_.incarnation, options_.job_secret} {
  for (const LinkKind kind : kBestFirst) {
    if (std::any_of(options_.links.begin(), options_.links.end(),
                    [kind](const LinkChoice& choice) { return choice.kind == kind; })) {
      offer_.kinds.push_back(kind);
    }
  }
}

bool PeerLinks::Connected(const Peer& peer) const {
  return transport_->peer_status(peer.peer).ok() &&
         transport_->incarnation(peer.peer) == peer.incarnation;
}

Status PeerLinks::Connect(const std::vector<Peer>& peers, const Deadline& deadline) {
  std::vector<Peer> mine;
  std::vector<Peer> others;
  {
    const MutexLock lock(mu_);
    for (const Peer& peer : peers) {
      if (peer.peer < 0 || static_cast<size_t>(peer.peer) >= options_.tasks.size()) {
        return InvalidArgument(fmt::format("there is no task {} to connect with", peer.peer));
      }
      if (!Connected(peer) && peer.peer != options_.self) {
        (claimed_.insert(peer.peer).second ? mine : others).push_back(peer);
      }
    }
  }
  if (!mine.empty()) {
    const Status status = ConnectClaimed(mine, deadline);
    const MutexLock lock(mu_);
    for (const Peer& peer : mine) {
      claimed_.erase(peer.peer);
    }
    changed_.NotifyAll();
    LS_TRY(status);
  }
  // Only now, so that nobody waits for this task while it waits for somebody else.
  for (const Peer& peer : others) {
    {
      const MutexLock lock(mu_);
      while (claimed_.count(peer.peer) > 0) {
        if (!changed_.WaitUntil(mu_, deadline)) {
          return DeadlineExceeded("did not connect: " + NameOf(peer.peer));
        }
      }
    }
    LS_TRY(Connect({peer}, deadline));
  }
  return OkStatus();
}

Status PeerLinks::ConnectClaimed(const std::vector<Peer>& peers, const Deadline& deadline) {
  LS_TRY(PutOffer(deadline));
  std::vector<Candidate> candidates;
  for (const Peer& peer : peers) {
    // What is left of a former link is of no use to either end.
    transport_->FailPeer(peer.peer, Unavailable("it is being connected again"));
    LS_ASSIGN_OR_RETURN(Candidate candidate, Meet(peer, deadline));
    candidates.push_back(std::move(candidate));
  }
  while (!candidates.empty()) {
    for (const LinkKind kind : kBestFirst) {
      LS_TRY(TryKind(kind, candidates, deadline));
    }
    std::erase_if(candidates, [this](const Candidate& c) { return Connected(c.peer); });
  }
  return OkStatus();
}

Status PeerLinks::PutOffer(const Deadline& deadline) {
  {
    const MutexLock lock(mu_);
    if (offered_) {
      return OkStatus();
    }
  }
  std::string text;
  {
    const MutexLock lock(make_mu_);
    LS_ASSIGN_OR_RETURN(offer_.host, HostIdentity());
    text = offer_.host;
    for (const LinkKind kind : offer_.kinds) {
      text += fmt::format("\n{}", LinkKindName(kind));
    }
  }
  // Of two at the same time the second one says the same again.
  LS_TRY(book_.Put(std::string(kOfferTopic), std::move(text), deadline));
  const MutexLock lock(mu_);
  offered_ = true;
  return OkStatus();
}

Result<PeerLinks::Offer> PeerLinks::ParseOffer(const std::string& text) {
  if (text.size() > kMaxTextBytes) {
    return InvalidArgument(fmt::format("an offer of {} bytes", text.size()));
  }
  Offer offer;
  size_t end = text.find('\n');
  offer.host = text.substr(0, end);
  while (end != std::string::npos) {
    const size_t begin = end + 1;
    end = text.find('\n', begin);
    LS_ASSIGN_OR_RETURN(
        const LinkKind kind,
        ParseLinkKind(text.substr(begin, end == std::string::npos ? end : end - begin)));
    offer.kinds.push_back(kind);
  }
  return offer;
}

Result<PeerLinks::Candidate> PeerLinks::Meet(const Peer& peer, const Deadline& deadline) {
  const Result<std::string> text =
      book_.Get(peer.peer, peer.incarnation, std::string(kOfferTopic), deadline);
  if (!text.ok()) {
    return text.status().With("what links " + NameOf(peer.peer) + " offers");
  }
  LS_ASSIGN_OR_RETURN(const Offer theirs, ParseOffer(*text));
  Offer mine;
  {
    const MutexLock lock(make_mu_);
    mine = offer_;
  }
  Candidate candidate{peer, {}, {}};
  for (const LinkKind kind : mine.kinds) {
    if (std::count(theirs.kinds.begin(), theirs.kinds.end(), kind) > 0 &&
        (kind != LinkKind::kShm || mine.host == theirs.host)) {
      candidate.kinds.push_back(kind);
    }
  }
  if (candidate.kinds.empty()) {
    return FailedPrecondition(
        fmt::format("{} and {} have no transport in common: here {}; there {}{}",
                    NameOf(options_.self), NameOf(peer.peer), NamesOf(mine.kinds),
                    NamesOf(theirs.kinds), mine.host == theirs.host ? "" : ", on another host"));
  }
  return candidate;
}

Result<internal::LinkProvider*> PeerLinks::ProviderOf(LinkKind kind, const Deadline& deadline) {
  const MutexLock lock(make_mu_);
  const auto known = providers_.find(kind);
  if (known != providers_.end()) {
    return known->second;
  }
  const auto choice = std::find_if(options_.links.begin(), options_.links.end(),
                                   [kind](const LinkChoice& c) { return c.kind == kind; });
  Result<std::unique_ptr<internal::LinkProvider>> made = choice->make(identity_, reactor_);
  LS_TRY(book_.Put(std::string(LinkKindName(kind)),
                   made.ok() ? kHere + (*made)->address() : kMissing + made.status().message(),
                   deadline));
  if (!made.ok()) {
    return providers_.emplace(kind, made.status()).first->second;
  }
  internal::LinkProvider* provider = made->get();
  transport_->Keep(std::move(made).value());
  return providers_.emplace(kind, provider).first->second;
}

Result<internal::PeerAddress> PeerLinks::AddressOf(const Peer& peer, LinkKind kind,
                                                   const Deadline& deadline) {
  LS_ASSIGN_OR_RETURN(const std::string text, book_.Get(peer.peer, peer.incarnation,
                                                        std::string(LinkKindName(kind)), deadline));
  if (text.size() < 2 || text.size() > kMaxTextBytes || text[0] != kHere) {
    return Unavailable(fmt::format("{} does without it: {}", NameOf(peer.peer),
                                   text.size() > kMaxTextBytes ? "" : text.substr(1)));
  }
  return internal::PeerAddress{peer.peer, peer.incarnation, text.substr(1)};
}

Status PeerLinks::PassOver(Candidate& candidate, const Status& why) {
  const std::string name(LinkKindName(candidate.kinds.front()));
  candidate.passed_over +=
      fmt::format("{}{}: {}", candidate.passed_over.empty() ? "" : "; ", name, why.ToString());
  candidate.kinds.erase(candidate.kinds.begin());
  if (candidate.kinds.empty()) {
    return Status(why.code(),
                  fmt::format("no transport works between {} and {}: {}", NameOf(options_.self),
                              NameOf(candidate.peer.peer), candidate.passed_over));
  }
  if (options_.note) {
    options_.note(fmt::format("{}: {} to {} is passed over: {}", NameOf(options_.self), name,
                              NameOf(candidate.peer.peer), why.ToString()));
  }
  return OkStatus();
}

Status PeerLinks::TryKind(LinkKind kind, std::vector<Candidate>& candidates,
                          const Deadline& deadline) {
  std::vector<std::pair<Candidate*, Status>> tried;
  std::vector<internal::PeerAddress> addresses;
  for (Candidate& candidate : candidates) {
    if (!Connected(candidate.peer) && candidate.kinds.front() == kind) {
      tried.emplace_back(&candidate, OkStatus());
    }
  }
  if (tried.empty()) {
    return OkStatus();
  }
  const Result<internal::LinkProvider*> provider = ProviderOf(kind, deadline);
  for (auto& [candidate, status] : tried) {
    const Result<internal::PeerAddress> address = AddressOf(candidate->peer, kind, deadline);
    status = provider.ok() ? address.status() : provider.status();
    if (status.ok()) {
      addresses.push_back(*address);
    }
  }
  Status connected;
  if (!addresses.empty()) {
    connected = (*provider)->Connect(transport_->engine(), addresses,
                                     std::min(deadline, Deadline::After(options_.patience)));
  }
  for (auto& [candidate, status] : tried) {
    const Peer& peer = candidate->peer;
    if (status.ok() && Connected(peer)) {
      if (options_.note) {
        options_.note(fmt::format("{}: {} to {}", NameOf(options_.self), LinkKindName(kind),
                                  NameOf(peer.peer)));
      }
      continue;
    }
    const Status lost = transport_->peer_status(peer.peer);
    const Status why = !status.ok() ? status : !connected.ok() ? connected : lost;
    // Half a link would be in the way of the next attempt.
    transport_->FailPeer(peer.peer, why);
    LS_TRY(book_.PeerStatus(peer.peer, peer.incarnation));
    const bool late = status.ok() && connected.code() == StatusCode::kDeadlineExceeded;
    if (candidate->kinds.size() > 1 || !late || deadline.expired()) {
      LS_TRY(PassOver(*candidate, why));
    }
  }
  return OkStatus();
}

}  // namespace lockstep::net
