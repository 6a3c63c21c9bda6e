// GrpcDoor: lets gRPC links come in at the port of another gRPC server of this process, so that a
// task needs one open port. That server hands on the calls of Link/Connect (grpc_entrance.h);
// GrpcOptions::door tells the links' provider not to listen itself. Thread-safe.
//
//   auto door = std::make_shared<GrpcDoor>();
//   ... a server that hands on to *door starts at "host:port" ...
//   door->Open("host:port");                       // before the first link is made
//   GrpcFactory({.host = "host", .door = door});
//   door->Close();                                 // before the server shuts down
#pragma once

#include <memory>
#include <string>

#include "lockstep/base/mutex.h"

namespace lockstep::net {

namespace grpc_link {
class Lobby;
}

class GrpcDoor {
 public:
  // `address` is where peers find the server.
  void Open(std::string address) LS_EXCLUDES(mu_);
  // Sends away who has come and was not linked yet, and everybody who comes later.
  void Close() LS_EXCLUDES(mu_);

  // Empty unless open.
  std::string address() const LS_EXCLUDES(mu_);

  // Where who comes is led to: null while no links are made. For the provider.
  void LeadTo(std::shared_ptr<grpc_link::Lobby> lobby) LS_EXCLUDES(mu_);
  std::shared_ptr<grpc_link::Lobby> lobby() const LS_EXCLUDES(mu_);

 private:
  mutable Mutex mu_;
  bool closed_ LS_GUARDED_BY(mu_) = false;
  std::string address_ LS_GUARDED_BY(mu_);
  std::shared_ptr<grpc_link::Lobby> lobby_ LS_GUARDED_BY(mu_);
};

}  // namespace lockstep::net
