#include "lockstep/net/grpc/grpc_stream.h"

#include <grpcpp/alarm.h>
#include <grpcpp/generic/generic_stub.h>

#include <chrono>
#include <utility>

#include "lockstep/base/mutex.h"

namespace lockstep::net::grpc_link {
namespace {

// For the other end to take what was written before an orderly end.
constexpr auto kLinger = std::chrono::seconds(2);
// gRPC refuses longer ones.
constexpr size_t kMaxTrailerBytes = 1024;

grpc::WriteOptions OptionsOf(bool through) {
  grpc::WriteOptions options;
  if (through) {
    options.set_write_through();
  }
  return options;
}

grpc::Status ToGrpc(const Status& status) {
  return status.ok() ? grpc::Status::OK
                     : grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                                    status.message().substr(0, kMaxTrailerBytes));
}

Status FromGrpc(const grpc::Status& status) {
  const int code = status.error_code();
  if (status.ok() || code == grpc::StatusCode::CANCELLED) {
    return Unavailable("it has closed the connection");
  }
  const bool known = code > 0 && code <= static_cast<int>(StatusCode::kUnauthenticated);
  return {known ? static_cast<StatusCode>(code) : StatusCode::kUnknown, status.error_message()};
}

// What both ends share: who follows, and what is on its way. `Reactor` is gRPC's class for the end.
template <class Reactor>
class StreamBase : public Stream, public Reactor {
 public:
  void Read() override {
    const MutexLock lock(mu_);
    if (!over_) {
      this->StartRead(&incoming_);
    }
  }

  void Write(grpc::ByteBuffer message, bool through) override {
    const MutexLock lock(mu_);
    if (!over_) {
      outgoing_.Swap(&message);
      this->StartWrite(&outgoing_, OptionsOf(through));
    }
  }

  void Follow(std::shared_ptr<StreamEvents> events) override {
    Status ended;
    std::shared_ptr<StreamEvents> told;
    {
      const MutexLock lock(mu_);
      events_ = std::move(events);
      ended = ended_;
      told = events_;
    }
    if (!ended.ok() && told != nullptr) {
      told->OnEnded(ended);
    }
  }

 protected:
  std::shared_ptr<StreamEvents> events() {
    const MutexLock lock(mu_);
    return events_;
  }

  // True if there is somebody who wants it.
  bool Deliver() {
    grpc::ByteBuffer message;
    message.Swap(&incoming_);
    const std::shared_ptr<StreamEvents> to = events();
    if (to != nullptr) {
      to->OnMessage(message);
    }
    return to != nullptr;
  }

  void DeliverWritten() {
    if (const std::shared_ptr<StreamEvents> to = events(); to != nullptr) {
      to->OnWritten();
    }
  }

  void DeliverEnd(const Status& why) {
    std::shared_ptr<StreamEvents> to;
    {
      const MutexLock lock(mu_);
      ended_ = why;
      to = std::move(events_);
      events_ = nullptr;
    }
    if (to != nullptr) {
      to->OnEnded(why);
    }
  }

  Mutex mu_;
  // No operation begins any more.
  bool over_ LS_GUARDED_BY(mu_) = false;
  bool done_ LS_GUARDED_BY(mu_) = false;
  // Of the read that is under way.
  grpc::ByteBuffer incoming_;
  // Of the write.
  grpc::ByteBuffer outgoing_;

 private:
  std::shared_ptr<StreamEvents> events_ LS_GUARDED_BY(mu_);
  Status ended_ LS_GUARDED_BY(mu_);
};

// A hold keeps gRPC from ending the call while an operation may still begin.
class ConnectedStream
    : public StreamBase<grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>>,
      public std::enable_shared_from_this<ConnectedStream> {
 public:
  explicit ConnectedStream(std::shared_ptr<grpc::Channel> channel)
      : channel_(std::move(channel)), stub_(channel_) {}

  void Begin() {
    self_ = shared_from_this();
    stub_.PrepareBidiStreamingCall(&context_, kMethod, {}, this);
    AddHold();
    StartCall();
  }

  void End(const Status& /*why*/) override {
    const MutexLock lock(mu_);
    if (over_) {
      return;
    }
    StartWritesDone();
    LetGo();
    linger_.Set(std::chrono::system_clock::now() + kLinger, [weak = weak_from_this()](bool /*ok*/) {
      if (const auto stream = weak.lock(); stream != nullptr) {
        stream->Cancel();
      }
    });
  }

  void Cancel() override {
    const MutexLock lock(mu_);
    if (!done_) {
      context_.TryCancel();
    }
    LetGo();
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      const MutexLock lock(mu_);
      LetGo();
    } else if (!Deliver()) {
      StartRead(&incoming_);
    }
  }

  void OnWriteDone(bool ok) override {
    if (ok) {
      DeliverWritten();
    } else {
      const MutexLock lock(mu_);
      LetGo();
    }
  }

  void OnDone(const grpc::Status& status) override {
    {
      const MutexLock lock(mu_);
      done_ = true;
    }
    linger_.Cancel();
    DeliverEnd(FromGrpc(status));
    self_.reset();
  }

 private:
  void LetGo() LS_REQUIRES(mu_) {
    if (!over_) {
      over_ = true;
      RemoveHold();
    }
  }

  const std::shared_ptr<grpc::Channel> channel_;
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::Alarm linger_;
  std::shared_ptr<ConnectedStream> self_;
};

// Lives until OnDone, which gRPC calls after Finish, whatever happened to the connection.
class AcceptingStream : public StreamBase<grpc::ServerGenericBidiReactor>,
                        public std::enable_shared_from_this<AcceptingStream> {
 public:
  explicit AcceptingStream(grpc::GenericCallbackServerContext* context) : context_(context) {}

  void Begin() { self_ = shared_from_this(); }

  void End(const Status& why) override {
    const MutexLock lock(mu_);
    FinishOnce(why);
  }

  void Cancel() override {
    const MutexLock lock(mu_);
    if (!done_) {
      context_->TryCancel();
    }
    FinishOnce(Cancelled("given up"));
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      End(OkStatus());
    } else if (!Deliver()) {
      Read();
    }
  }

  void OnWriteDone(bool ok) override {
    if (ok) {
      DeliverWritten();
    } else {
      End(OkStatus());
    }
  }

  void OnCancel() override { End(OkStatus()); }

  void OnDone() override {
    {
      const MutexLock lock(mu_);
      done_ = true;
    }
    DeliverEnd(Unavailable("its connection has ended"));
    self_.reset();
  }

 private:
  void FinishOnce(const Status& why) LS_REQUIRES(mu_) {
    if (!over_) {
      over_ = true;
      Finish(ToGrpc(why));
    }
  }

  grpc::GenericCallbackServerContext* const context_;
  std::shared_ptr<AcceptingStream> self_;
};

}  // namespace

std::shared_ptr<Stream> Connect(std::shared_ptr<grpc::Channel> channel,
                                std::shared_ptr<StreamEvents> events) {
  auto stream = std::make_shared<ConnectedStream>(std::move(channel));
  stream->Follow(std::move(events));
  stream->Begin();
  return stream;
}

AcceptedStream AcceptStream(grpc::GenericCallbackServerContext* context) {
  auto stream = std::make_shared<AcceptingStream>(context);
  stream->Begin();
  return {stream.get(), stream};
}

}  // namespace lockstep::net::grpc_link
