#include "lockstep/cluster/internal/rpc_channel.h"

#include <fmt/format.h>
#include <grpcpp/generic/generic_stub.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <vector>

#include "lockstep/base/mutex.h"
#include "lockstep/cluster/internal/rpc_frame.h"
#include "lockstep/cluster/internal/rpc_grpc.h"
#include "lockstep/cluster/internal/rpc_sessions.h"
#include "lockstep/cluster/internal/rpc_status.h"
#include "lockstep/cluster/security/handshake.h"
#include "lockstep/net/grpc/callback_threads.h"
#include "lockstep/net/listen_point.h"

namespace lockstep::cluster::internal {
namespace {

using std::chrono::milliseconds;

// Numbered calls of one session.
struct Session {
  uint64_t id;
  std::string key;
  std::atomic<uint64_t> next_call{1};
};

// gRPC's "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: Failed to
// connect to remote host: Connection refused" repeats what the message says; the end is the cause.
std::string_view Cause(std::string_view text) {
  return text.starts_with("failed to connect to all addresses") ? text.substr(text.rfind(": ") + 2)
                                                                : text;
}

// One stream of frames to the server and back. Owns itself until OnDone.
class Stream : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  // The frame that sends `payload`, and what is done with a frame that came (true: it was the
  // last). Both are called one at a time, on the transport's threads.
  using Finished = std::function<void(const grpc::Status&, Status)>;

  Stream(std::string method, std::shared_ptr<const std::string> body,
         std::shared_ptr<Session> session, Finished finished)
      : method_(std::move(method)),
        body_(std::move(body)),
        session_(std::move(session)),
        call_(session_ == nullptr ? 0 : session_->next_call.fetch_add(1)),
        finished_(std::move(finished)) {}

  static void Begin(const std::shared_ptr<Stream>& stream, grpc::GenericStub& stub,
                    const RpcOptions& options) {
    stream->self_ = stream;
    stream->context_.set_wait_for_ready(options.wait_for_ready);
    if (!options.deadline.infinite()) {
      stream->context_.set_deadline(ToSystemTime(options.deadline));
    }
    stub.PrepareBidiStreamingCall(&stream->context_, stream->method_, {}, stream.get());
    stream->WriteNext();
    stream->StartRead(&incoming(*stream));
    stream->StartCall();
  }

  void TryCancel() { context_.TryCancel(); }

  std::string TakeReply() { return std::move(reply_); }

  bool complete() const { return complete_; }

  void OnWriteDone(bool ok) override {
    if (ok && written_ < body_->size()) {
      WriteNext();
    }
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      return;
    }
    const Status status = Read();
    if (!status.ok()) {
      error_ = status;
      context_.TryCancel();
    } else if (!complete_) {
      StartRead(&incoming_);
    }
  }

  void OnDone(const grpc::Status& status) override {
    const std::shared_ptr<Stream> self = std::move(self_);
    finished_(status, error_);
    finished_ = nullptr;
  }

 private:
  static grpc::ByteBuffer& incoming(Stream& stream) { return stream.incoming_; }

  void WriteNext() {
    if (session_ == nullptr) {  // a hello comes as a whole frame
      const grpc::Slice slice(*body_);
      outgoing_ = grpc::ByteBuffer(&slice, 1);
      written_ = body_->size();
      StartWriteLast(&outgoing_, grpc::WriteOptions());
      return;
    }
    const std::string_view rest = std::string_view(*body_).substr(written_);
    const std::string_view payload = rest.substr(0, kFramePayloadBytes);
    const bool last = payload.size() == rest.size();
    const RpcFrame frame{
        .last = last, .session = session_->id, .call = call_, .chunk = next_chunk_++};
    const Result<std::string> header = FrameHeader(frame, method_, payload, session_->key);
    if (!header.ok()) {
      error_ = header.status();
      context_.TryCancel();
      return;
    }
    written_ += payload.size();
    outgoing_ = MakeMessage(*header, payload, body_);
    if (last) {
      StartWriteLast(&outgoing_, grpc::WriteOptions());
    } else {
      StartWrite(&outgoing_);
    }
  }

  Status Read() {
    std::string message;
    if (!ReadMessage(incoming_, message)) {
      return Internal("an unreadable reply");
    }
    incoming_.Clear();
    if (session_ == nullptr) {
      reply_ = std::move(message);
      complete_ = true;
      return OkStatus();
    }
    LS_ASSIGN_OR_RETURN(const ParsedFrame parsed, ParseFrame(message));
    LS_TRY(CheckFrame(parsed, method_, session_->key));
    if (!parsed.frame.reply || parsed.frame.session != session_->id || parsed.frame.call != call_ ||
        parsed.frame.chunk != next_read_) {
      return Unauthenticated("a reply that belongs to another call");
    }
    ++next_read_;
    reply_ += parsed.payload;
    complete_ = parsed.frame.last;
    return OkStatus();
  }

  const std::string method_;
  const std::shared_ptr<const std::string> body_;
  const std::shared_ptr<Session> session_;
  const uint64_t call_;
  Finished finished_;
  std::shared_ptr<Stream> self_;
  grpc::ClientContext context_;
  grpc::ByteBuffer outgoing_;
  grpc::ByteBuffer incoming_;
  size_t written_ = 0;
  uint32_t next_chunk_ = 0;
  uint32_t next_read_ = 0;
  std::string reply_;
  bool complete_ = false;
  Status error_;
};

class GrpcChannel;

// A call of a user: says hello first where need be, and again if the server was restarted.
class Pending : public RpcPending, public std::enable_shared_from_this<Pending> {
 public:
  Pending(std::shared_ptr<GrpcChannel> channel, std::string_view method, std::string body,
          const RpcOptions& options, RpcDone done)
      : channel_(std::move(channel)),
        method_(method),
        body_(std::make_shared<const std::string>(std::move(body))),
        options_(options),
        begun_(Deadline::Clock::now()),
        done_(std::move(done)) {}

  void Begin();
  void SayHello();
  void Cancel() override;

 private:
  void Run(std::string method, std::shared_ptr<const std::string> body,
           std::shared_ptr<Session> session, Stream::Finished finished);
  void OnReply(const std::shared_ptr<Session>& session, const grpc::Status& grpc_status,
               const Status& error);
  // After a connection that broke, if the caller waits for it to come back.
  bool TryAgain(const grpc::Status& status);
  Status Describe(const grpc::Status& status) const;
  void Finish(Result<std::string> result);

  const std::shared_ptr<GrpcChannel> channel_;
  const std::string method_;
  const std::shared_ptr<const std::string> body_;
  const RpcOptions options_;
  const Deadline::Clock::time_point begun_;
  // Answers that the session is unknown.
  int forgotten_ = 0;
  Mutex mu_;
  std::shared_ptr<Stream> stream_ LS_GUARDED_BY(mu_);
  bool cancelled_ LS_GUARDED_BY(mu_) = false;
  RpcDone done_ LS_GUARDED_BY(mu_);
};

class GrpcChannel : public RpcChannel, public std::enable_shared_from_this<GrpcChannel> {
 public:
  GrpcChannel(const Options& options, std::string job_key,
              const std::shared_ptr<grpc::Channel>& channel)
      : options_(options), job_key_(std::move(job_key)), stub_(channel) {}

  std::shared_ptr<RpcPending> Start(std::string_view method, std::string body,
                                    const RpcOptions& options, RpcDone done) override {
    auto pending = std::make_shared<Pending>(shared_from_this(), method, std::move(body), options,
                                             std::move(done));
    pending->Begin();
    return pending;
  }

  const std::string& peer() const override { return options_.peer; }

  const std::string& job_key() const { return job_key_; }

  grpc::GenericStub& stub() { return stub_; }

  std::shared_ptr<Session> session() {
    const MutexLock lock(mu_);
    return session_;
  }

  void SetSession(std::shared_ptr<Session> session) {
    const MutexLock lock(mu_);
    session_ = std::move(session);
  }

  // Unless somebody has replaced it meanwhile.
  void DropSession(const std::shared_ptr<Session>& session) {
    const MutexLock lock(mu_);
    if (session_ == session) {
      session_ = nullptr;
    }
  }

  // "/job:ps/task:0 (127.0.0.1:4000)".
  std::string Where() const {
    const std::string address = options_.address.ToString();
    return options_.peer.empty() ? address : fmt::format("{} ({})", options_.peer, address);
  }

 protected:
  Status CheckHandshake(const Deadline& deadline) const override {
    const Status status = TryHandshake(options_.address, options_.security, deadline);
    return status.ok() ? status
                       : Status(status.code(), fmt::format("{}: {}", Where(), status.message()));
  }

 private:
  const Options options_;
  const std::string job_key_;
  grpc::GenericStub stub_;
  Mutex mu_;
  std::shared_ptr<Session> session_ LS_GUARDED_BY(mu_);
};

void Pending::Begin() {
  std::shared_ptr<Session> session = channel_->session();
  if (session == nullptr) {
    SayHello();
    return;
  }
  Run(method_, body_, session,
      [self = shared_from_this(), session](const grpc::Status& status, const Status& error) {
        self->OnReply(session, status, error);
      });
}

void Pending::SayHello() {
  Result<HelloRequest> hello = MakeHello(channel_->job_key());
  if (!hello.ok()) {
    Finish(hello.status());
    return;
  }
  auto body = std::make_shared<const std::string>(std::move(hello->message));
  Run(std::string(kHelloMethod), body, nullptr,
      [self = shared_from_this(), nonce = hello->nonce](const grpc::Status& status,
                                                        const Status& error) {
        std::string reply;
        {
          const MutexLock lock(self->mu_);
          reply = self->stream_ == nullptr ? "" : self->stream_->TakeReply();
          self->stream_ = nullptr;
        }
        if (self->TryAgain(status)) {
          return;
        }
        if (!status.ok() || !error.ok()) {
          self->Finish(error.ok() ? self->Describe(status)
                                  : error.With("with " + self->channel_->Where()));
          return;
        }
        Result<ClientSession> made = ReadHelloReply(reply, nonce, self->channel_->job_key());
        if (!made.ok()) {
          self->Finish(made.status().With("with " + self->channel_->Where()));
          return;
        }
        auto session = std::make_shared<Session>();
        session->id = made->id;
        session->key = std::move(made->key);
        self->channel_->SetSession(std::move(session));
        self->Begin();
      });
}

void Pending::Run(std::string method, std::shared_ptr<const std::string> body,
                  std::shared_ptr<Session> session, Stream::Finished finished) {
  auto stream = std::make_shared<Stream>(std::move(method), std::move(body), std::move(session),
                                         std::move(finished));
  {
    const MutexLock lock(mu_);
    stream_ = stream;
    if (cancelled_) {
      stream->TryCancel();
    }
  }
  Stream::Begin(stream, channel_->stub(), options_);
}

void Pending::OnReply(const std::shared_ptr<Session>& session, const grpc::Status& grpc_status,
                      const Status& error) {
  std::shared_ptr<Stream> stream;
  {
    const MutexLock lock(mu_);
    stream = std::move(stream_);
    stream_ = nullptr;
  }
  constexpr int kMaxForgotten = 3;
  const bool unknown_session =
      grpc_status.error_code() == grpc::StatusCode::UNAUTHENTICATED &&
      grpc_status.error_message().rfind(RpcSessions::kUnknownSession, 0) == 0;
  if (unknown_session && forgotten_++ < kMaxForgotten) {
    // The server was restarted and has not run the call.
    channel_->DropSession(session);
    Begin();
    return;
  }
  if (TryAgain(grpc_status)) {
    return;
  }
  if (!error.ok()) {
    Finish(error.With("with " + channel_->Where()));
  } else if (!grpc_status.ok()) {
    Finish(Describe(grpc_status));
  } else if (!stream->complete()) {
    Finish(Internal(fmt::format("{} ended a reply in the middle", channel_->Where())));
  } else {
    Finish(DecodeReply(stream->TakeReply()));
  }
}

bool Pending::TryAgain(const grpc::Status& status) {
  if (status.error_code() != grpc::StatusCode::UNAVAILABLE || !options_.wait_for_ready ||
      options_.deadline.expired()) {
    return false;
  }
  {
    const MutexLock lock(mu_);
    if (cancelled_) {
      return false;
    }
  }
  Begin();
  return true;
}

Status Pending::Describe(const grpc::Status& status) const {
  const std::string_view name = std::string_view(method_).substr(method_.rfind('/') + 1);
  const std::string where = channel_->Where();
  const Status plain = FromGrpc(status);
  switch (plain.code()) {
    case StatusCode::kDeadlineExceeded: {
      const double seconds = std::chrono::duration<double>(Deadline::Clock::now() - begun_).count();
      return DeadlineExceeded(
          fmt::format("{} did not answer {} within {:.3g} s", where, name, seconds));
    }
    case StatusCode::kCancelled:
      return Cancelled(fmt::format("the call of {} at {} was cancelled", name, where));
    case StatusCode::kUnavailable:
      return Unavailable(
          fmt::format("{} cannot be reached for {}: {}", where, name, Cause(plain.message())));
    default:
      return Status(plain.code(), fmt::format("{} refused {}: {}", where, name, plain.message()));
  }
}

void Pending::Finish(Result<std::string> result) {
  RpcDone done;
  {
    const MutexLock lock(mu_);
    done = std::move(done_);
    done_ = nullptr;
  }
  if (done) {
    done(std::move(result));
  }
}

void Pending::Cancel() {
  const MutexLock lock(mu_);
  cancelled_ = true;
  if (stream_ != nullptr) {
    stream_->TryCancel();
  }
}

std::string TargetOf(const net::Address& address) {
  switch (address.kind()) {
    case net::Address::Kind::kIpv4:
      return fmt::format("ipv4:{}", address.ToString());
    case net::Address::Kind::kIpv6:
      return fmt::format("ipv6:{}", address.ToString());
    case net::Address::Kind::kName:
      break;
  }
  return fmt::format("dns:///{}", address.ToString());
}

// Plain TCP goes to loopback only. A name that cannot be resolved yet may be one day: then TLS or
// `insecure` must cover it.
Status CheckTarget(const RpcChannel::Options& options) {
  bool loopback = options.address.loopback();
  if (!loopback && options.address.kind() == net::Address::Kind::kName) {
    const Result<std::vector<net::ListenPoint>> points = net::ResolveHost(options.address);
    if (points.ok()) {
      loopback = std::all_of(points->begin(), points->end(),
                             [](const net::ListenPoint& point) { return point.loopback; });
    }
  }
  return CheckExposure(options.security, loopback, options.address.ToString());
}

}  // namespace

Result<std::shared_ptr<RpcChannel>> RpcChannel::Create(const Options& options) {
  net::grpc_link::KeepCallbackThreads();
  LS_TRY(CheckTarget(options));
  LS_ASSIGN_OR_RETURN(std::string key, JobKey(options.security.job_secret));
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetMaxReceiveMessageSize(static_cast<int>(kFrameHeaderBytes + kFramePayloadBytes));
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetServiceConfigJSON("{}");
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  const std::shared_ptr<grpc::Channel> channel = grpc::CreateCustomChannel(
      TargetOf(options.address), ChannelCredentialsOf(options.security), arguments);
  return std::shared_ptr<RpcChannel>(
      std::make_shared<GrpcChannel>(options, std::move(key), channel));
}

Result<std::string> RpcChannel::Call(std::string_view method, std::string body,
                                     const RpcOptions& options) {
  struct Waiting {
    Mutex mu;
    CondVar ended;
    std::optional<Result<std::string>> result;
  };

  // How long a call waits before it is looked why, and again.
  constexpr milliseconds kLook{500};
  // The whole of one look.
  constexpr milliseconds kLookTime{1000};
  // So many in a row must say that waiting cannot help: the server of an older job may be there.
  constexpr int kRefusals = 3;

  const auto waiting = std::make_shared<Waiting>();
  const std::shared_ptr<RpcPending> pending =
      Start(method, std::move(body), options, [waiting](Result<std::string> result) {
        const MutexLock lock(waiting->mu);
        waiting->result = std::move(result);
        waiting->ended.NotifyOne();
      });
  bool look = options.wait_for_ready;
  Status refused;
  const MutexLock lock(waiting->mu);
  for (int refusals = 0; !waiting->result.has_value();) {
    // The call ends by its own deadline.
    if (waiting->ended.WaitUntil(waiting->mu,
                                 look ? Deadline::After(kLook) : Deadline::Infinite())) {
      continue;
    }
    waiting->mu.Unlock();
    const Status status = CheckHandshake(std::min(options.deadline, Deadline::After(kLookTime)));
    refusals = status.code() == StatusCode::kUnauthenticated ? refusals + 1 : 0;
    if (refusals == kRefusals) {
      refused = status;
      pending->Cancel();
    }
    waiting->mu.Lock();
    // Once the ends agree, it is the call that takes its time.
    look = !status.ok() && refused.ok();
  }
  if (!waiting->result->ok() && !refused.ok()) {
    return refused;
  }
  return *std::move(waiting->result);
}

}  // namespace lockstep::cluster::internal
