// DataLinks: the data links of a server: made when a graph first needs them, between the tasks that
// share it, with addresses that go through the coordinator's shared values. Thread-safe.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/log.h"
#include "lockstep/base/mutex.h"
#include "lockstep/cluster/coordinator/coordinator_client.h"
#include "lockstep/cluster/security/security_options.h"
#include "lockstep/cluster/spec/server_def.h"
#include "lockstep/cluster/worker/task_links.h"
#include "lockstep/net/grpc/grpc_door.h"
#include "lockstep/net/peer_links.h"

namespace lockstep::cluster {

class DataLinks : public TaskLinks {
 public:
  struct Options {
    ServerDef def;
    uint64_t incarnation = 0;
    SecurityOptions security = {};
    std::chrono::milliseconds heartbeat{5000};
    // Where links over gRPC come in: the server's own port.
    std::shared_ptr<net::GrpcDoor> door = nullptr;
    // May be null.
    Log* log = nullptr;
  };

  // What the definition names, or the best of all kinds; ucx is not among them where tasks talk
  // TLS. INVALID_ARGUMENT for a kind that this server must not use.
  static Result<std::unique_ptr<DataLinks>> Create(const Options& options);

  DataLinks(int number, uint64_t incarnation) : book_(number, incarnation) {}

  // Until then no peer can be linked.
  void SetCoordinator(std::shared_ptr<CoordinatorClient> client) { book_.Set(std::move(client)); }

  // Lets go of the coordinator: what waits for addresses ends. Returns when nobody uses it.
  void Stop() { book_.Set(nullptr); }

  const std::shared_ptr<net::Transport>& transport() const override { return links_->transport(); }

  Status Connect(const std::vector<TaskStart>& tasks, const Deadline& deadline) override;

 private:
  // Keys are "links/NUMBER/INCARNATION/TOPIC".
  class Book : public net::AddressBook {
   public:
    Book(int number, uint64_t incarnation) : number_(number), incarnation_(incarnation) {}

    // Waits until the former one is not used any more.
    void Set(std::shared_ptr<CoordinatorClient> client) LS_EXCLUDES(mu_);
    Status Put(const std::string& topic, std::string text, const Deadline& deadline) override
        LS_EXCLUDES(mu_);
    Result<std::string> Get(net::PeerId peer, uint64_t incarnation, const std::string& topic,
                            const Deadline& deadline) override LS_EXCLUDES(mu_);
    Status PeerStatus(net::PeerId peer, uint64_t incarnation) override LS_EXCLUDES(mu_);

   private:
    Result<std::shared_ptr<CoordinatorClient>> Take() LS_EXCLUDES(mu_);
    void GiveBack(std::shared_ptr<CoordinatorClient> client) LS_EXCLUDES(mu_);

    const int number_;
    const uint64_t incarnation_;
    Mutex mu_;
    CondVar returned_;
    std::shared_ptr<CoordinatorClient> client_ LS_GUARDED_BY(mu_);
    int users_ LS_GUARDED_BY(mu_) = 0;
  };

  Book book_;
  std::unique_ptr<net::PeerLinks> links_;
};

}  // namespace lockstep::cluster
