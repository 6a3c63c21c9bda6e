#include "lockstep/cluster/internal/rpc_server.h"

#include <fmt/format.h>
#include <grpcpp/generic/async_generic_service.h>

#include <limits>
#include <optional>

#include "lockstep/base/mutex.h"
#include "lockstep/cluster/internal/rpc_frame.h"
#include "lockstep/cluster/internal/rpc_grpc.h"
#include "lockstep/cluster/internal/rpc_sessions.h"
#include "lockstep/cluster/internal/rpc_status.h"
#include "lockstep/cluster/security/credentials.h"
#include "lockstep/net/grpc/callback_threads.h"
#include "lockstep/net/grpc/grpc_entrance.h"
#include "lockstep/net/listen_point.h"

namespace lockstep::cluster::internal {
namespace {

// What all calls of a server share; calls keep it alive.
struct Shared {
  explicit Shared(std::string job_key) : sessions(std::move(job_key)) {}

  RpcSessions sessions;
  RpcHandlers handlers;
  uint64_t max_body_bytes = 0;
  std::function<void(const std::string&)> on_stranger;
};

// gRPC's "ipv6:%5B::1%5D:4000" as this project writes addresses.
std::string AddressOf(const grpc::GenericCallbackServerContext& context) {
  std::string text = context.peer();
  text.erase(0, text.find(':') + 1);
  for (const auto& [code, plain] : {std::pair("%5B", "["), std::pair("%5D", "]")}) {
    if (const size_t at = text.find(code); at != std::string::npos) {
      text.replace(at, 3, plain);
    }
  }
  return text;
}

// One call: reads frames until the last, runs the handler, writes the reply. Owns itself until
// OnDone, which gRPC calls after Finish, whatever happened to the connection.
class Call : public grpc::ServerGenericBidiReactor, public std::enable_shared_from_this<Call> {
 public:
  // `context` lives until OnDone.
  Call(std::shared_ptr<Shared> shared, const grpc::GenericCallbackServerContext& context)
      : shared_(std::move(shared)),
        context_(context),
        method_(context.method()),
        deadline_(FromSystemTime(context.deadline())) {}

  void Begin() {
    self_ = shared_from_this();
    StartRead(&incoming_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      End(Cancelled("the caller hung up in the middle of a call"));
      return;
    }
    const Status status = Read();
    if (!status.ok()) {
      End(status);
    }
  }

  void OnWriteDone(bool ok) override {
    if (!ok) {
      End(Cancelled("the caller hung up before it had its reply"));
      return;
    }
    WriteNext();
  }

  void OnCancel() override {
    std::function<void()> cancelled;
    {
      const MutexLock lock(mu_);
      gone_ = true;
      cancelled = std::move(on_cancel_);
      on_cancel_ = nullptr;
    }
    if (cancelled) {
      cancelled();
    }
  }

  void OnDone() override { self_.reset(); }

  void Reply(const Result<std::string>& result) {
    reply_ = std::make_shared<const std::string>(EncodeReply(result));
    {
      const MutexLock lock(mu_);
      on_cancel_ = nullptr;
    }
    WriteNext();
  }

  void SetOnCancel(std::function<void()> cancelled) {
    {
      const MutexLock lock(mu_);
      if (!gone_) {
        on_cancel_ = std::move(cancelled);
        return;
      }
    }
    cancelled();
  }

 private:
  Status Read();
  void Dispatch();
  void WriteNext();

  void End(const Status& status) {
    if (!ended_.exchange(true)) {
      Finish(ToGrpc(status));
    }
  }

  const std::shared_ptr<Shared> shared_;
  const grpc::GenericCallbackServerContext& context_;
  const std::string method_;
  const Deadline deadline_;
  std::shared_ptr<Call> self_;
  grpc::ByteBuffer incoming_;
  grpc::ByteBuffer outgoing_;
  std::string key_;
  RpcFrame last_read_;
  bool first_ = true;
  std::string body_;
  std::shared_ptr<const std::string> reply_;
  size_t written_ = 0;
  uint32_t next_chunk_ = 0;
  std::atomic<bool> ended_{false};
  Mutex mu_;
  bool gone_ LS_GUARDED_BY(mu_) = false;
  std::function<void()> on_cancel_ LS_GUARDED_BY(mu_);
};

// The handler's end of a call.
class CallReply : public RpcReply {
 public:
  explicit CallReply(std::shared_ptr<Call> call) : call_(std::move(call)) {}

  ~CallReply() override {
    if (!finished_.load()) {
      CallReply::Finish(Internal("the call was dropped without a reply"));
    }
  }

  void Finish(Result<std::string> result) override {
    if (!finished_.exchange(true)) {
      call_->Reply(result);
    }
  }

  void OnCancel(std::function<void()> cancelled) override {
    call_->SetOnCancel(std::move(cancelled));
  }

 private:
  const std::shared_ptr<Call> call_;
  std::atomic<bool> finished_{false};
};

Status Call::Read() {
  std::string message;
  if (!ReadMessage(incoming_, message)) {
    return InvalidArgument("an unreadable message");
  }
  incoming_.Clear();
  LS_ASSIGN_OR_RETURN(const ParsedFrame parsed, ParseFrame(message));
  if (parsed.frame.reply) {
    return InvalidArgument("a reply where a call is expected");
  }
  if (method_ == kHelloMethod) {
    const Result<std::string> hello = shared_->sessions.Hello(parsed);
    if (hello.status().code() == StatusCode::kUnauthenticated && shared_->on_stranger) {
      shared_->on_stranger(AddressOf(context_));
    }
    LS_TRY(hello.status());
    const grpc::Slice slice(*hello);
    outgoing_ = grpc::ByteBuffer(&slice, 1);
    ended_.store(true);
    StartWriteAndFinish(&outgoing_, grpc::WriteOptions(), grpc::Status::OK);
    return OkStatus();
  }
  if (first_) {
    if (parsed.frame.chunk != 0) {
      return InvalidArgument("a call that starts in the middle");
    }
    LS_ASSIGN_OR_RETURN(key_, shared_->sessions.Admit(parsed, method_));
  } else {
    if (parsed.frame.session != last_read_.session || parsed.frame.call != last_read_.call ||
        parsed.frame.chunk != last_read_.chunk + 1) {
      return InvalidArgument("frames out of order");
    }
    LS_TRY(CheckFrame(parsed, method_, key_));
  }
  first_ = false;
  last_read_ = parsed.frame;
  if (parsed.payload.size() > shared_->max_body_bytes - body_.size()) {
    return ResourceExhausted(fmt::format("the body of the call {} is larger than {} bytes", method_,
                                         shared_->max_body_bytes));
  }
  body_ += parsed.payload;
  if (parsed.frame.last) {
    Dispatch();
  } else {
    StartRead(&incoming_);
  }
  return OkStatus();
}

void Call::Dispatch() {
  auto reply = std::make_shared<CallReply>(shared_from_this());
  const auto handler = shared_->handlers.find(method_);
  if (handler == shared_->handlers.end()) {
    reply->Finish(Unimplemented(fmt::format("this server has no method '{}'", method_)));
    return;
  }
  handler->second({std::move(body_), deadline_}, std::move(reply));
}

void Call::WriteNext() {
  const std::string_view rest = std::string_view(*reply_).substr(written_);
  const std::string_view payload = rest.substr(0, kFramePayloadBytes);
  const bool last = payload.size() == rest.size();
  const RpcFrame frame{.last = last,
                       .reply = true,
                       .session = last_read_.session,
                       .call = last_read_.call,
                       .chunk = next_chunk_++};
  const Result<std::string> header = FrameHeader(frame, method_, payload, key_);
  if (!header.ok()) {
    End(header.status());
    return;
  }
  written_ += payload.size();
  outgoing_ = MakeMessage(*header, payload, reply_);
  if (!last) {
    StartWrite(&outgoing_);
  } else if (!ended_.exchange(true)) {
    StartWriteAndFinish(&outgoing_, grpc::WriteOptions(), grpc::Status::OK);
  }
}

class Service : public grpc::CallbackGenericService {
 public:
  Service(std::shared_ptr<Shared> shared, std::shared_ptr<net::GrpcDoor> door)
      : shared_(std::move(shared)), door_(std::move(door)) {}

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    if (door_ != nullptr && net::grpc_link::IsLink(*context)) {
      return net::grpc_link::Enter(*door_, context);
    }
    auto call = std::make_shared<Call>(shared_, *context);
    call->Begin();
    return call.get();
  }

 private:
  const std::shared_ptr<Shared> shared_;
  const std::shared_ptr<net::GrpcDoor> door_;
};

class GrpcServer : public RpcServer {
 public:
  GrpcServer(std::shared_ptr<Shared> shared, std::shared_ptr<net::GrpcDoor> door)
      : service_(std::move(shared), std::move(door)) {}

  ~GrpcServer() override { GrpcServer::Shutdown(Deadline::After(std::chrono::milliseconds(0))); }

  Status Listen(const Options& options) {
    LS_ASSIGN_OR_RETURN(const std::vector<net::ListenPoint> points,
                        net::ResolveHost(options.address));
    port_ = options.address.port();
    grpc::ServerBuilder builder;
    std::vector<int> bound(points.size(), 0);
    for (size_t i = 0; i < points.size(); ++i) {
      LS_TRY(CheckExposure(options.security, points[i].loopback, points[i].WithPort(port_)));
      LS_ASSIGN_OR_RETURN(port_, net::TryListen(options.address, points[i], port_));
      builder.AddListeningPort(points[i].WithPort(port_), ServerCredentialsOf(options.security),
                               &bound[i]);
    }
    builder.RegisterCallbackGenericService(&service_);
    builder.SetMaxReceiveMessageSize(static_cast<int>(kFrameHeaderBytes + kFramePayloadBytes));
    builder.SetMaxSendMessageSize(-1);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1000);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
    if (options.door != nullptr) {
      net::grpc_link::TuneForLinks(builder);
    }
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) {
      return Unavailable(
          fmt::format("{}: the server cannot start there: somebody took the port at this moment",
                      options.address.ToString()));
    }
    return OkStatus();
  }

  int port() const override { return port_; }

  void Shutdown(const Deadline& deadline) override {
    if (server_ != nullptr) {
      server_->Shutdown(ToSystemTime(deadline));
      server_->Wait();
      server_.reset();
    }
  }

 private:
  Service service_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

}  // namespace

Result<std::unique_ptr<RpcServer>> RpcServer::Start(Options options) {
  net::grpc_link::KeepCallbackThreads();
  LS_TRY(CheckCredentials(options.security));
  LS_ASSIGN_OR_RETURN(std::string key, JobKey(options.security.job_secret));
  auto shared = std::make_shared<Shared>(std::move(key));
  shared->handlers = std::move(options.handlers);
  shared->max_body_bytes = options.max_body_bytes;
  shared->on_stranger = std::move(options.on_stranger);
  auto server = std::make_unique<GrpcServer>(std::move(shared), options.door);
  LS_TRY(server->Listen(options));
  return std::unique_ptr<RpcServer>(std::move(server));
}

}  // namespace lockstep::cluster::internal
