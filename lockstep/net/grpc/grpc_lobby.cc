#include "lockstep/net/grpc/grpc_lobby.h"

#include <fmt/format.h>
#include <grpcpp/alarm.h>

#include <chrono>
#include <utility>
#include <vector>

namespace lockstep::net::grpc_link {
namespace {

// Whoever connects and says nothing is sent away after this.
constexpr auto kGreetingTimeout = std::chrono::seconds(5);
constexpr int kMaxGreeting = 1024;

std::string TextOf(const grpc::ByteBuffer& message) {
  std::vector<grpc::Slice> slices;
  std::string text;
  if (message.Dump(&slices).ok()) {
    for (const grpc::Slice& slice : slices) {
      text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    }
  }
  return text;
}

grpc::ByteBuffer MessageOf(const std::string& text) {
  const grpc::Slice slice(text);
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace

class Guest : public StreamEvents, public std::enable_shared_from_this<Guest> {
 public:
  Guest(std::shared_ptr<Lobby> lobby, std::shared_ptr<Stream> stream)
      : lobby_(std::move(lobby)), stream_(std::move(stream)), greeting_(lobby_->identity()) {}

  ~Guest() override {
    if (!counted_out_) {
      lobby_->GreetingEnded();
    }
  }

  void Begin() {
    stream_->Follow(shared_from_this());
    alarm_.Set(std::chrono::system_clock::now() + kGreetingTimeout,
               [weak = weak_from_this()](bool ok) {
                 if (const auto guest = weak.lock(); ok && guest != nullptr) {
                   guest->OnTimeout();
                 }
               });
    stream_->Read();
  }

  uint64_t incarnation() const {
    const MutexLock lock(mu_);
    return greeting_.incarnation();
  }

  // Once it has arrived in the lobby.
  Greeted Take() {
    const MutexLock lock(mu_);
    return {stream_, *keys_};
  }

  void Refuse(const Status& why) { stream_->End(why); }

  void OnMessage(const grpc::ByteBuffer& message) override {
    Status status;
    {
      const MutexLock lock(mu_);
      status = Step(TextOf(message));
    }
    if (!status.ok()) {
      stream_->End(status);
    } else {
      ArriveIfReady();
    }
  }

  void OnWritten() override {
    {
      const MutexLock lock(mu_);
      writing_ = false;
    }
    ArriveIfReady();
  }

  void OnEnded(const Status& /*why*/) override {
    PeerId peer = 0;
    {
      const MutexLock lock(mu_);
      peer = greeting_.peer();
    }
    alarm_.Cancel();
    lobby_->Left(peer, this);
  }

 private:
  Status Step(const std::string& message) LS_REQUIRES(mu_) {
    if (!said_hello_) {
      LS_ASSIGN_OR_RETURN(const std::string challenge, greeting_.OnHello(message));
      said_hello_ = true;
      writing_ = true;
      stream_->Write(MessageOf(challenge), false);
      stream_->Read();
      return OkStatus();
    }
    LS_ASSIGN_OR_RETURN(keys_, greeting_.OnCommit(message));
    return OkStatus();  // the next message is for the link
  }

  void ArriveIfReady() {
    PeerId peer = 0;
    {
      const MutexLock lock(mu_);
      if (!keys_.has_value() || writing_ || arrived_) {
        return;
      }
      arrived_ = true;
      peer = greeting_.peer();
    }
    counted_out_ = true;
    lobby_->GreetingEnded();
    lobby_->Arrived(peer, shared_from_this());
  }

  void OnTimeout() {
    {
      const MutexLock lock(mu_);
      if (arrived_) {
        return;
      }
    }
    stream_->Cancel();
  }

  const std::shared_ptr<Lobby> lobby_;
  const std::shared_ptr<Stream> stream_;
  grpc::Alarm alarm_;
  std::atomic<bool> counted_out_{false};
  mutable Mutex mu_;
  AcceptingGreeting greeting_ LS_GUARDED_BY(mu_);
  bool said_hello_ LS_GUARDED_BY(mu_) = false;
  bool writing_ LS_GUARDED_BY(mu_) = false;
  bool arrived_ LS_GUARDED_BY(mu_) = false;
  std::optional<StreamKeys> keys_ LS_GUARDED_BY(mu_);
};

grpc::ServerGenericBidiReactor* Lobby::Receive(grpc::GenericCallbackServerContext* context) {
  const AcceptedStream accepted = AcceptStream(context);
  {
    const MutexLock lock(mu_);
    greeting_ += 1;
    if (greeting_ > kMaxGreeting) {
      greeting_ -= 1;
      accepted.stream->End(ResourceExhausted("too many connect at once"));
      return accepted.reactor;
    }
  }
  std::make_shared<Guest>(shared_from_this(), accepted.stream)->Begin();
  return accepted.reactor;
}

void Lobby::GreetingEnded() {
  const MutexLock lock(mu_);
  greeting_ -= 1;
}

void Lobby::Arrived(PeerId peer, std::shared_ptr<Guest> guest) {
  std::shared_ptr<Guest> former;
  {
    const MutexLock lock(mu_);
    former = closed_ ? std::move(guest) : std::exchange(guests_[peer], std::move(guest));
  }
  // It has given up, or was restarted.
  if (former != nullptr) {
    former->Refuse(Unavailable("it has connected anew, or this task has closed its transport"));
  }
  Changed();
}

void Lobby::Left(PeerId peer, const Guest* guest) {
  std::shared_ptr<Guest> left;
  const MutexLock lock(mu_);
  const auto found = guests_.find(peer);
  if (found != guests_.end() && found->second.get() == guest) {
    left = std::move(found->second);
    guests_.erase(found);
  }
}

std::optional<Greeted> Lobby::Take(const internal::PeerAddress& peer) {
  std::shared_ptr<Guest> guest;
  {
    const MutexLock lock(mu_);
    const auto found = guests_.find(peer.peer);
    if (found == guests_.end()) {
      return std::nullopt;
    }
    guest = std::move(found->second);
    guests_.erase(found);
  }
  if (guest->incarnation() != peer.incarnation) {
    guest->Refuse(Unauthenticated("another incarnation of this task is expected"));
    return std::nullopt;
  }
  return guest->Take();
}

void Lobby::Close() {
  std::map<PeerId, std::shared_ptr<Guest>> guests;
  {
    const MutexLock lock(mu_);
    closed_ = true;
    guests.swap(guests_);
  }
  for (const auto& [peer, guest] : guests) {
    guest->Refuse(Unavailable("this task has closed its transport"));
  }
}

uint64_t Lobby::changes() const {
  const MutexLock lock(mu_);
  return changes_;
}

void Lobby::WaitForChange(uint64_t since, const Deadline& deadline) {
  const MutexLock lock(mu_);
  while (changes_ == since && changed_.WaitUntil(mu_, deadline)) {
  }
}

void Lobby::Changed() {
  const MutexLock lock(mu_);
  changes_ += 1;
  changed_.NotifyAll();
}

std::shared_ptr<Dial> Dial::Begin(std::shared_ptr<Lobby> lobby,
                                  std::shared_ptr<grpc::Channel> channel,
                                  const internal::PeerAddress& peer) {
  auto dial = std::make_shared<Dial>(std::move(lobby), peer);
  const std::shared_ptr<Stream> stream = Connect(std::move(channel), dial);
  const MutexLock lock(dial->mu_);
  dial->stream_ = stream;
  const Result<std::string> hello = dial->greeting_.FirstMessage();
  if (!hello.ok()) {
    dial->Fail(hello.status());
    return dial;
  }
  dial->writing_ = true;
  stream->Write(MessageOf(*hello), false);
  stream->Read();
  return dial;
}

std::optional<Result<Greeted>> Dial::result() {
  const MutexLock lock(mu_);
  if (!error_.ok()) {
    return Result<Greeted>(error_);
  }
  if (keys_.has_value() && !writing_) {
    return Result<Greeted>(Greeted{stream_, *keys_});
  }
  return std::nullopt;
}

void Dial::GiveUp() {
  const MutexLock lock(mu_);
  stream_->Follow(nullptr);
  stream_->Cancel();
}

void Dial::Fail(const Status& why) {
  if (error_.ok()) {
    error_ = why;
  }
  stream_->Cancel();
}

void Dial::Step(const std::string& message) {
  if (!challenged_) {
    const Result<std::string> commit = greeting_.OnChallenge(message);
    if (!commit.ok()) {
      Fail(commit.status());
      return;
    }
    challenged_ = true;
    // The hello is there, so its Write is as good as done; OnWritten says when another may begin.
    commit_ = *commit;
    WriteCommit();
    stream_->Read();
    return;
  }
  const Result<StreamKeys> keys = greeting_.OnAccept(message);
  if (!keys.ok()) {
    Fail(keys.status());
    return;
  }
  keys_ = *keys;
}

void Dial::WriteCommit() {
  if (!writing_ && !commit_.empty()) {
    writing_ = true;
    stream_->Write(MessageOf(std::exchange(commit_, "")), false);
  }
}

void Dial::OnMessage(const grpc::ByteBuffer& message) {
  {
    const MutexLock lock(mu_);
    Step(TextOf(message));
  }
  lobby_->Changed();
}

void Dial::OnWritten() {
  {
    const MutexLock lock(mu_);
    writing_ = false;
    WriteCommit();
  }
  lobby_->Changed();
}

void Dial::OnEnded(const Status& why) {
  {
    const MutexLock lock(mu_);
    if (error_.ok()) {
      error_ = why;
    }
  }
  lobby_->Changed();
}

}  // namespace lockstep::net::grpc_link
