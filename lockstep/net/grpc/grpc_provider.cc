#include "lockstep/net/grpc/grpc_provider.h"

#include <fmt/format.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "lockstep/net/grpc/callback_threads.h"
#include "lockstep/net/grpc/grpc_entrance.h"
#include "lockstep/net/grpc/grpc_link.h"
#include "lockstep/net/grpc/grpc_lobby.h"
#include "lockstep/net/listen_point.h"

namespace lockstep::net {
namespace grpc_link {
namespace {

using Time = Deadline::Clock::time_point;

// After a failed attempt, doubled each time.
constexpr auto kFirstRetry = std::chrono::milliseconds(100);
constexpr auto kLastRetry = std::chrono::milliseconds(1000);
constexpr auto kShutdownTimeout = std::chrono::milliseconds(200);

Status CheckExposure(const GrpcOptions& options, const std::string& secret, bool loopback,
                     const std::string& where) {
  if (loopback || options.insecure || (options.tls() && !secret.empty())) {
    return OkStatus();
  }
  return PermissionDenied(
      fmt::format("{} is not on loopback: gRPC links need mutual TLS and a job secret there, or "
                  "--insecure to do without",
                  where));
}

// gRPC does not say what is wrong with a certificate.
Status CheckTls(const GrpcOptions& options) {
  const bool none =
      !options.tls() && options.ca_certificates.empty() && options.private_key.empty();
  const bool all =
      options.tls() && !options.ca_certificates.empty() && !options.private_key.empty();
  if (none) {
    return OkStatus();
  }
  if (!all) {
    return InvalidArgument(
        "mutual TLS needs an authority, a certificate and a private key: one of them is missing");
  }
  const auto open = [](const std::string& pem) {
    return std::unique_ptr<BIO, int (*)(BIO*)>(
        BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), BIO_free);
  };
  for (const std::string* pem : {&options.ca_certificates, &options.certificate}) {
    const std::unique_ptr<X509, void (*)(X509*)> read(
        PEM_read_bio_X509(open(*pem).get(), nullptr, nullptr, nullptr), X509_free);
    if (read == nullptr) {
      return InvalidArgument(pem == &options.certificate ? "the task's certificate cannot be read"
                                                         : "the authority cannot be read");
    }
  }
  const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key(
      PEM_read_bio_PrivateKey(open(options.private_key).get(), nullptr, nullptr, nullptr),
      EVP_PKEY_free);
  return key == nullptr ? InvalidArgument("the task's private key cannot be read") : OkStatus();
}

std::string TargetOf(const Address& address) {
  switch (address.kind()) {
    case Address::Kind::kIpv4:
      return fmt::format("ipv4:{}", address.ToString());
    case Address::Kind::kIpv6:
      return fmt::format("ipv6:{}", address.ToString());
    case Address::Kind::kName:
      break;
  }
  return fmt::format("dns:///{}", address.ToString());
}

Result<std::shared_ptr<grpc::Channel>> ChannelTo(const std::string& text,
                                                 const GrpcOptions& options,
                                                 const std::string& secret) {
  LS_ASSIGN_OR_RETURN(const Address address, Address::Parse(text));
  bool loopback = address.loopback();
  if (!loopback && address.kind() == Address::Kind::kName) {
    const Result<std::vector<ListenPoint>> points = ResolveHost(address);
    loopback = points.ok() && std::all_of(points->begin(), points->end(),
                                          [](const ListenPoint& point) { return point.loopback; });
  }
  LS_TRY(CheckExposure(options, secret, loopback, text));
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_TCP_READ_CHUNK_SIZE, kReadChunkBytes);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kLookaheadBytes);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kHttpFrameBytes);
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetServiceConfigJSON("{}");
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  return grpc::CreateCustomChannel(
      TargetOf(address),
      options.tls() ? grpc::SslCredentials(
                          {options.ca_certificates, options.private_key, options.certificate})
                    : grpc::InsecureChannelCredentials(),
      arguments);
}

std::string Named(const internal::Engine& engine, PeerId peer) {
  return fmt::format("gRPC with {}", engine.tasks()[static_cast<size_t>(peer)]);
}

class Service : public grpc::CallbackGenericService {
 public:
  explicit Service(std::shared_ptr<Lobby> lobby) : lobby_(std::move(lobby)) {}

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    return IsLink(*context) ? lobby_->Receive(context)
                            : CallbackGenericService::CreateReactor(context);
  }

 private:
  const std::shared_ptr<Lobby> lobby_;
};

class GrpcProvider : public internal::LinkProvider {
 public:
  GrpcProvider(internal::TaskIdentity identity, internal::Reactor& reactor, GrpcOptions options)
      : reactor_(reactor),
        options_(std::move(options)),
        lobby_(std::make_shared<Lobby>(std::move(identity))) {}

  ~GrpcProvider() override {
    if (options_.door != nullptr && options_.door->lobby() == lobby_) {
      options_.door->LeadTo(nullptr);
    }
    lobby_->Close();
    if (server_ != nullptr) {
      server_->Shutdown(std::chrono::system_clock::now() + kShutdownTimeout);
      server_->Wait();
    }
  }

  LinkKind kind() const override { return LinkKind::kGrpc; }

  std::string address() const override { return address_; }

  // At the first port that is free, or behind the door.
  Status Listen();

  Status Connect(internal::Engine& engine, const std::vector<internal::PeerAddress>& peers,
                 const Deadline& deadline) override;

 private:
  // A peer that this task connects to.
  struct Outgoing {
    internal::PeerAddress peer;
    std::shared_ptr<grpc::Channel> channel;
    std::shared_ptr<Dial> dial;
    Time again;   // when to try next
    Status last;  // why it did not work before
    std::chrono::milliseconds retry = kFirstRetry;
  };

  Status ListenAt(const Address& address);
  Status Start(const std::vector<ListenPoint>& points, int port);
  Status AttachLink(internal::Engine& engine, const internal::PeerAddress& peer, Greeted greeted,
                    std::string first);
  // Links with those of `expected` who have come, and takes them out.
  Status TakeGuests(internal::Engine& engine, std::vector<internal::PeerAddress>& expected);
  Status Missing(const internal::Engine& engine, const std::vector<Outgoing>& outgoing,
                 const std::vector<internal::PeerAddress>& expected) const;
  // True once the link is there.
  Result<bool> Advance(internal::Engine& engine, Outgoing& outgoing);

  const internal::TaskIdentity& identity() const { return lobby_->identity(); }

  internal::Reactor& reactor_;
  const GrpcOptions options_;
  const std::shared_ptr<Lobby> lobby_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  // Why others may not reach this task, if something is odd.
  std::string loopback_note_;
};

Status GrpcProvider::Listen() {
  if (options_.door != nullptr) {
    address_ = options_.door->address();
    if (address_.empty()) {
      return FailedPrecondition("the server at whose port gRPC links come in is not started");
    }
    options_.door->LeadTo(lobby_);
    return OkStatus();
  }
  const int last = std::max(options_.first_port, options_.last_port);
  Status status;
  for (int port = options_.first_port; port <= last; ++port) {
    LS_ASSIGN_OR_RETURN(const Address address,
                        Address::Make(options_.host, port, PortZero::kAllowed));
    if (address.unspecified()) {
      return InvalidArgument(
          fmt::format("{}: a task listens at addresses of its own, not at all", options_.host));
    }
    status = ListenAt(address);
    if (status.code() != StatusCode::kAlreadyExists) {
      return status;
    }
  }
  return options_.first_port == last
             ? status
             : AlreadyExists(fmt::format("{}: all ports from {} to {} are in use", options_.host,
                                         options_.first_port, last));
}

Status GrpcProvider::ListenAt(const Address& address) {
  LS_ASSIGN_OR_RETURN(const std::vector<ListenPoint> points, ResolveHost(address));
  if (address.kind() == Address::Kind::kName && !address.loopback() &&
      std::all_of(points.begin(), points.end(),
                  [](const ListenPoint& point) { return point.loopback; })) {
    loopback_note_ = fmt::format("{} stands for {} on this host, where no other host can connect",
                                 address.host(), points.front().host);
  }
  // A port that is found free may be taken the next moment.
  constexpr int kTries = 5;
  Status status;
  for (int i = 0; i < kTries; ++i) {
    int port = address.port();
    for (const ListenPoint& point : points) {
      LS_TRY(CheckExposure(options_, identity().job_secret, point.loopback, point.WithPort(port)));
      LS_ASSIGN_OR_RETURN(port, TryListen(address, point, port));
    }
    status = Start(points, port);
    if (status.ok() || address.port() != 0) {
      break;
    }
  }
  return status;
}

Status GrpcProvider::Start(const std::vector<ListenPoint>& points, int port) {
  grpc::ServerBuilder builder;
  std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
  if (options_.tls()) {
    grpc::SslServerCredentialsOptions tls(
        GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    tls.pem_root_certs = options_.ca_certificates;
    tls.pem_key_cert_pairs.push_back({options_.private_key, options_.certificate});
    credentials = grpc::SslServerCredentials(tls);
  }
  std::vector<int> bound(points.size(), 0);
  for (size_t i = 0; i < points.size(); ++i) {
    builder.AddListeningPort(points[i].WithPort(port), credentials, &bound[i]);
  }
  service_ = std::make_unique<Service>(lobby_);  // each serves one server
  builder.RegisterCallbackGenericService(service_.get());
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetMaxSendMessageSize(-1);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 5000);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 16);
  TuneForLinks(builder);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) {
    return AlreadyExists(
        fmt::format("{}: somebody took port {} at this moment", options_.host, port));
  }
  LS_ASSIGN_OR_RETURN(const Address address, Address::Make(options_.host, port));
  address_ = address.ToString();
  return OkStatus();
}

Status GrpcProvider::AttachLink(internal::Engine& engine, const internal::PeerAddress& peer,
                                Greeted greeted, std::string first) {
  StreamSeals seals;
  if (!options_.tls() && !identity().job_secret.empty()) {
    LS_ASSIGN_OR_RETURN(seals.send, internal::Seal::Create(greeted.keys.send));
    LS_ASSIGN_OR_RETURN(seals.receive, internal::Seal::Create(greeted.keys.receive));
  }
  return engine.Attach(
      peer.peer, peer.incarnation,
      std::make_unique<GrpcLink>(reactor_, engine.SinkFor(peer.peer), std::move(greeted.stream),
                                 std::move(seals), std::move(first)));
}

Result<bool> GrpcProvider::Advance(internal::Engine& engine, Outgoing& outgoing) {
  if (outgoing.dial == nullptr) {
    if (Deadline::Clock::now() >= outgoing.again) {
      outgoing.dial = Dial::Begin(lobby_, outgoing.channel, outgoing.peer);
    }
    return false;
  }
  std::optional<Result<Greeted>> result = outgoing.dial->result();
  if (!result.has_value()) {
    return false;
  }
  if (result->ok()) {
    LS_TRY(AttachLink(engine, outgoing.peer, std::move(*result).value(), ""));
    return true;
  }
  const Status& status = result->status();
  if (status.code() != StatusCode::kUnavailable &&
      status.code() != StatusCode::kResourceExhausted) {
    return status;
  }
  outgoing.last = status;
  outgoing.dial = nullptr;
  outgoing.again = Deadline::Clock::now() + outgoing.retry;
  outgoing.retry = std::min(2 * outgoing.retry, kLastRetry);
  return false;
}

Status GrpcProvider::TakeGuests(internal::Engine& engine,
                                std::vector<internal::PeerAddress>& expected) {
  for (auto it = expected.begin(); it != expected.end();) {
    std::optional<Greeted> greeted = lobby_->Take(*it);
    if (!greeted.has_value()) {
      ++it;
      continue;
    }
    const Status status =
        AttachLink(engine, *it, std::move(*greeted), AcceptingGreeting::AcceptMessage());
    if (!status.ok()) {
      return status.With(Named(engine, it->peer));
    }
    it = expected.erase(it);
  }
  return OkStatus();
}

Status GrpcProvider::Missing(const internal::Engine& engine, const std::vector<Outgoing>& outgoing,
                             const std::vector<internal::PeerAddress>& expected) const {
  std::string names;
  Status last;
  const auto add = [&](PeerId peer) {
    names += (names.empty() ? "" : ", ") + engine.tasks()[static_cast<size_t>(peer)];
  };
  for (const Outgoing& one : outgoing) {
    add(one.peer.peer);
    last = one.last.ok() ? last : one.last;
  }
  for (const internal::PeerAddress& peer : expected) {
    add(peer.peer);
  }
  Status status = DeadlineExceeded("did not connect over gRPC: " + names);
  if (!last.ok()) {
    status = status.With("the last attempt: " + last.message());
  }
  return loopback_note_.empty() ? status : status.With(loopback_note_);
}

Status GrpcProvider::Connect(internal::Engine& engine,
                             const std::vector<internal::PeerAddress>& peers,
                             const Deadline& deadline) {
  std::vector<Outgoing> outgoing;
  std::vector<internal::PeerAddress> expected;
  for (const internal::PeerAddress& peer : peers) {
    if (peer.peer > identity().self) {
      expected.push_back(peer);
      continue;
    }
    Result<std::shared_ptr<grpc::Channel>> channel =
        ChannelTo(peer.address, options_, identity().job_secret);
    if (!channel.ok()) {
      return channel.status().With(Named(engine, peer.peer));
    }
    Outgoing& one = outgoing.emplace_back();
    one.peer = peer;
    one.channel = std::move(channel).value();
  }
  Status status;
  while (status.ok() && !(outgoing.empty() && expected.empty())) {
    const uint64_t seen = lobby_->changes();
    status = TakeGuests(engine, expected);
    Deadline wake = deadline;
    for (auto it = outgoing.begin(); it != outgoing.end() && status.ok();) {
      const Result<bool> connected = Advance(engine, *it);
      if (!connected.ok()) {
        status = connected.status().With(Named(engine, it->peer.peer));
      } else if (*connected) {
        it = outgoing.erase(it);
      } else {
        wake = it->dial == nullptr ? std::min(wake, Deadline::At(it->again)) : wake;
        ++it;
      }
    }
    if (!status.ok() || (outgoing.empty() && expected.empty())) {
      break;
    }
    if (deadline.expired()) {
      status = Missing(engine, outgoing, expected);
    } else {
      lobby_->WaitForChange(seen, wake);
    }
  }
  for (const Outgoing& left : outgoing) {
    if (left.dial != nullptr) {
      left.dial->GiveUp();
    }
  }
  return status;
}

}  // namespace
}  // namespace grpc_link

LinkFactory GrpcFactory(GrpcOptions options) {
  return [options = std::move(options)](
             const internal::TaskIdentity& identity,
             internal::Reactor& reactor) -> Result<std::unique_ptr<internal::LinkProvider>> {
    grpc_link::KeepCallbackThreads();
    LS_TRY(grpc_link::CheckTls(options));
    auto provider = std::make_unique<grpc_link::GrpcProvider>(identity, reactor, options);
    LS_TRY(provider->Listen());
    return std::unique_ptr<internal::LinkProvider>(std::move(provider));
  };
}

}  // namespace lockstep::net
