// Lobby: where the two ends of new streams prove who they are before a link is made of them. Peers
// that have proven it wait here until this task asks for a link with them. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/base/mutex.h"
#include "lockstep/net/grpc/grpc_greeting.h"
#include "lockstep/net/grpc/grpc_stream.h"

namespace lockstep::net::grpc_link {

// A stream whose other end has proven who it is.
struct Greeted {
  std::shared_ptr<Stream> stream;
  StreamKeys keys;
};

// A stream that this task began.
class Dial;
// A stream that a peer began.
class Guest;

class Lobby : public std::enable_shared_from_this<Lobby> {
 public:
  explicit Lobby(internal::TaskIdentity identity) : identity_(std::move(identity)) {}

  const internal::TaskIdentity& identity() const { return identity_; }

  // Takes a peer's stream in.
  grpc::ServerGenericBidiReactor* Receive(grpc::GenericCallbackServerContext* context);
  // The stream that this incarnation of the peer began, if it has come. Of others it is refused.
  std::optional<Greeted> Take(const internal::PeerAddress& peer);

  // Sends everybody away, also those who come later.
  void Close();

  // How often anything changed here.
  uint64_t changes() const;
  void WaitForChange(uint64_t since, const Deadline& deadline);
  void Changed();

  // For guests.
  void Arrived(PeerId peer, std::shared_ptr<Guest> guest);
  void Left(PeerId peer, const Guest* guest);
  void GreetingEnded();

 private:
  const internal::TaskIdentity identity_;
  mutable Mutex mu_;
  CondVar changed_;
  uint64_t changes_ LS_GUARDED_BY(mu_) = 0;
  int greeting_ LS_GUARDED_BY(mu_) = 0;  // guests who have not proven who they are
  bool closed_ LS_GUARDED_BY(mu_) = false;
  std::map<PeerId, std::shared_ptr<Guest>> guests_ LS_GUARDED_BY(mu_);
};

class Dial : public StreamEvents, public std::enable_shared_from_this<Dial> {
 public:
  static std::shared_ptr<Dial> Begin(std::shared_ptr<Lobby> lobby,
                                     std::shared_ptr<grpc::Channel> channel,
                                     const internal::PeerAddress& peer);

  Dial(std::shared_ptr<Lobby> lobby, const internal::PeerAddress& peer)
      : lobby_(std::move(lobby)), greeting_(lobby_->identity(), peer) {}

  // Nothing while the greeting lasts.
  std::optional<Result<Greeted>> result();
  void GiveUp();

  void OnMessage(const grpc::ByteBuffer& message) override;
  void OnWritten() override;
  void OnEnded(const Status& why) override;

 private:
  void Step(const std::string& message) LS_REQUIRES(mu_);
  void WriteCommit() LS_REQUIRES(mu_);
  void Fail(const Status& why) LS_REQUIRES(mu_);

  const std::shared_ptr<Lobby> lobby_;
  Mutex mu_;
  ConnectingGreeting greeting_ LS_GUARDED_BY(mu_);
  std::shared_ptr<Stream> stream_ LS_GUARDED_BY(mu_);
  bool challenged_ LS_GUARDED_BY(mu_) = false;
  bool writing_ LS_GUARDED_BY(mu_) = false;
  std::string commit_ LS_GUARDED_BY(mu_);  // to be written
  std::optional<StreamKeys> keys_ LS_GUARDED_BY(mu_);
  Status error_ LS_GUARDED_BY(mu_);
};

}  // namespace lockstep::net::grpc_link
