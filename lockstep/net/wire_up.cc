#include "lockstep/net/wire_up.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "lockstep/net/internal/proof.h"
#include "lockstep/net/internal/self_link.h"

namespace lockstep::net {
namespace {

constexpr std::string_view kBlobMagic = "LKSTADR1";
constexpr size_t kMaxLinks = 8;
constexpr size_t kMaxFieldBytes = size_t{1} << 20;

void AppendNumber(std::string* out, uint64_t value) {
  char bytes[sizeof(value)];
  std::memcpy(bytes, &value, sizeof(value));
  out->append(bytes, sizeof(bytes));
}

void AppendText(std::string* out, std::string_view text) {
  AppendNumber(out, text.size());
  out->append(text);
}

class BlobReader {
 public:
  explicit BlobReader(std::string_view blob) : blob_(blob) {}

  Result<uint64_t> Number() {
    if (blob_.size() - at_ < sizeof(uint64_t)) {
      return Cut();
    }
    uint64_t value = 0;
    std::memcpy(&value, blob_.data() + at_, sizeof(value));
    at_ += sizeof(value);
    return value;
  }

  Result<std::string> Text() {
    LS_ASSIGN_OR_RETURN(const uint64_t size, Number());
    if (size > kMaxFieldBytes || size > blob_.size() - at_) {
      return Cut();
    }
    std::string text(blob_.substr(at_, size));
    at_ += size;
    return text;
  }

  bool done() const { return at_ == blob_.size(); }

 private:
  Status Cut() const {
    return InvalidArgument(
        fmt::format("the addresses of a task end at byte {} of {}, in a field", at_, blob_.size()));
  }

  std::string_view blob_;
  size_t at_ = 0;
};

std::optional<std::string> AddressOf(const TaskAddresses& addresses, LinkKind kind) {
  for (const TaskAddresses::Link& link : addresses.links) {
    if (link.kind == kind) {
      return link.address;
    }
  }
  return std::nullopt;
}

std::string KindsOf(const TaskAddresses& addresses) {
  std::string names;
  for (const TaskAddresses::Link& link : addresses.links) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", LinkKindName(link.kind));
  }
  return names.empty() ? "none" : names;
}

// The same for both ends: by the order of the kinds.
Result<LinkKind> ChooseKind(const TaskAddresses& mine, const TaskAddresses& theirs) {
  for (const LinkKind kind : {LinkKind::kShm, LinkKind::kUcx, LinkKind::kGrpc}) {
    if (AddressOf(mine, kind).has_value() && AddressOf(theirs, kind).has_value() &&
        (kind != LinkKind::kShm || (mine.host == theirs.host && !mine.host.empty()))) {
      return kind;
    }
  }
  return FailedPrecondition(fmt::format("no transport in common: here {}; there {}{}",
                                        KindsOf(mine), KindsOf(theirs),
                                        mine.host == theirs.host ? "" : ", on another host"));
}

Result<uint64_t> RandomIncarnation() {
  uint64_t incarnation = 0;
  while (incarnation == 0) {
    LS_ASSIGN_OR_RETURN(const internal::Nonce nonce, internal::MakeNonce());
    std::memcpy(&incarnation, nonce.data(), sizeof(incarnation));
  }
  return incarnation;
}

}  // namespace

LinkFactory ShmFactory(ShmOptions options) {
  return [options](const internal::TaskIdentity& identity, internal::Reactor& reactor) {
    return MakeShmProvider(identity, reactor, options);
  };
}

std::string EncodeTaskAddresses(const TaskAddresses& addresses) {
  std::string blob(kBlobMagic);
  AppendNumber(&blob, addresses.incarnation);
  AppendText(&blob, addresses.host);
  AppendNumber(&blob, addresses.links.size());
  for (const TaskAddresses::Link& link : addresses.links) {
    AppendText(&blob, LinkKindName(link.kind));
    AppendText(&blob, link.address);
  }
  return blob;
}

Result<TaskAddresses> ParseTaskAddresses(std::string_view blob) {
  if (blob.substr(0, kBlobMagic.size()) != kBlobMagic) {
    return InvalidArgument("no addresses of a task");
  }
  BlobReader reader(blob.substr(kBlobMagic.size()));
  TaskAddresses addresses;
  LS_ASSIGN_OR_RETURN(addresses.incarnation, reader.Number());
  LS_ASSIGN_OR_RETURN(addresses.host, reader.Text());
  LS_ASSIGN_OR_RETURN(const uint64_t count, reader.Number());
  if (addresses.incarnation == 0 || count > kMaxLinks) {
    return InvalidArgument(fmt::format("addresses of a task with incarnation {} and {} links",
                                       addresses.incarnation, count));
  }
  for (uint64_t i = 0; i < count; ++i) {
    LS_ASSIGN_OR_RETURN(const std::string name, reader.Text());
    LS_ASSIGN_OR_RETURN(std::string address, reader.Text());
    LS_ASSIGN_OR_RETURN(const LinkKind kind, ParseLinkKind(name));
    if (AddressOf(addresses, kind).has_value()) {
      return InvalidArgument(fmt::format("two addresses of a task for {}", name));
    }
    addresses.links.push_back({kind, std::move(address)});
  }
  if (!reader.done()) {
    return InvalidArgument("bytes behind the addresses of a task");
  }
  return addresses;
}

Result<std::unique_ptr<Transport>> WireUp(const WireUpOptions& options, BlobExchange& exchange,
                                          const Deadline& deadline) {
  LS_ASSIGN_OR_RETURN(std::unique_ptr<internal::Reactor> made,
                      internal::Reactor::Create(options.reactor));
  internal::Reactor& reactor = *made;
  auto transport = std::make_unique<Transport>(std::move(made), options.self, options.tasks);
  internal::Engine& engine = transport->engine();
  internal::TaskIdentity identity{options.self, options.incarnation, options.job_secret};
  if (identity.incarnation == 0) {
    LS_ASSIGN_OR_RETURN(identity.incarnation, RandomIncarnation());
  }
  TaskAddresses mine;
  mine.incarnation = identity.incarnation;
  LS_ASSIGN_OR_RETURN(mine.host, HostIdentity());
  std::map<LinkKind, internal::LinkProvider*> providers;
  for (const LinkChoice& choice : options.links) {
    Result<std::unique_ptr<internal::LinkProvider>> made_provider = choice.make(identity, reactor);
    if (!made_provider.ok()) {
      if (choice.optional) {
        continue;
      }
      return made_provider.status().With(fmt::format("transport {}", LinkKindName(choice.kind)));
    }
    providers[choice.kind] = made_provider->get();
    mine.links.push_back({choice.kind, (*made_provider)->address()});
    transport->Keep(std::move(made_provider).value());
  }
  LS_TRY(
      engine.Attach(options.self, identity.incarnation,
                    std::make_unique<internal::SelfLink>(reactor, engine.SinkFor(options.self))));
  LS_TRY(exchange.Put(EncodeTaskAddresses(mine), deadline));
  std::map<LinkKind, std::vector<internal::PeerAddress>> peers;
  for (int peer = 0; peer < transport->num_tasks(); ++peer) {
    if (peer == options.self) {
      continue;
    }
    const std::string& name = transport->task_name(peer);
    Result<std::string> blob = exchange.Get(peer, deadline);
    if (!blob.ok()) {
      return blob.status().With("addresses of " + name);
    }
    Result<TaskAddresses> theirs = ParseTaskAddresses(*blob);
    if (!theirs.ok()) {
      return theirs.status().With("addresses of " + name);
    }
    Result<LinkKind> kind = ChooseKind(mine, *theirs);
    if (!kind.ok()) {
      return kind.status().With(fmt::format("{} and {}", transport->task_name(options.self), name));
    }
    peers[*kind].push_back({peer, theirs->incarnation, *AddressOf(*theirs, *kind)});
  }
  for (const auto& [kind, list] : peers) {
    LS_TRY(providers.at(kind)->Connect(engine, list, deadline));
  }
  engine.WatchPeers(options.heartbeat);
  return transport;
}

std::string DescribeLinks(const Transport& transport) {
  std::string text;
  for (int peer = 0; peer < transport.num_tasks(); ++peer) {
    const Result<LinkKind> kind = transport.link_kind(peer);
    if (peer != transport.self()) {
      text += fmt::format("{}{} to {}", text.empty() ? "" : ", ",
                          kind.ok() ? LinkKindName(*kind) : "nothing", transport.task_name(peer));
    }
  }
  return fmt::format("{}: links {}", transport.task_name(transport.self()),
                     text.empty() ? "none" : text);
}

}  // namespace lockstep::net
