// CoordinatorClient: a task's end of the coordinator: registers, sends heartbeats, follows the
// views, and offers barriers and shared values. One connection, two threads of its own at most.
// Every call takes a deadline, and an error says who is missing. Thread-safe.
//
//   LS_ASSIGN_OR_RETURN(auto client, CoordinatorClient::Create(options));
//   LS_TRY(client->Register(deadline));
//   LS_TRY(client->WaitForTasks({0, 1, 2}, deadline));
//   LS_TRY(client->Barrier("epoch 3", {}, deadline));
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/base/mutex.h"
#include "lockstep/base/result.h"
#include "lockstep/cluster/coordinator/key_value_store.h"
#include "lockstep/cluster/coordinator/membership_view.h"
#include "lockstep/cluster/security/security_options.h"
#include "lockstep/cluster/spec/cluster_spec.h"

namespace lockstep::cluster {

namespace internal {
class RpcChannel;
class RpcPending;
}  // namespace internal

class CoordinatorClient {
 public:
  struct Options {
    ClusterSpec cluster;
    // This task and the one that hosts the coordinator.
    int number = 0;
    int coordinator = 0;
    // Where the coordinator listens, if not where the cluster says.
    std::optional<net::Address> address = std::nullopt;
    uint64_t incarnation = 0;
    SecurityOptions security = {};
    // An index that is taken is asked for again for so long: its last owner may be dead and still
    // count as present.
    std::chrono::milliseconds patience{10'000};
    // Called for each new view and once for a failure; from any thread, must not block and must not
    // call this object.
    std::function<void(const MembershipView&)> on_view = nullptr;
    // This task is out: the coordinator is lost, or it holds this task for lost.
    std::function<void(const Status&)> on_failure = nullptr;
  };

  static Result<std::unique_ptr<CoordinatorClient>> Create(Options options);

  CoordinatorClient(Options options, std::string fingerprint,
                    std::shared_ptr<internal::RpcChannel> channel);
  CoordinatorClient(const CoordinatorClient&) = delete;
  CoordinatorClient& operator=(const CoordinatorClient&) = delete;
  // Ends heartbeats without leaving, as a crash would.
  ~CoordinatorClient();

  // Waits for the coordinator to be there, registers, and begins heartbeats.
  Status Register(const Deadline& deadline) LS_EXCLUDES(mu_);
  // No heartbeats after this. `why` is what made the task give up, which the others are told; OK if
  // it is done.
  Status Leave(const Status& why, const Deadline& deadline) LS_EXCLUDES(mu_);
  // This task only serves others from now on, or not.
  Status SetJoined(bool joined, const Deadline& deadline);

  Status WaitForTasks(const std::vector<int>& numbers, const Deadline& deadline);
  // No numbers: every task of the cluster.
  Status Barrier(const std::string& name, const std::vector<int>& numbers,
                 const Deadline& deadline);
  Status Insert(const std::string& key, const std::string& value, bool overwrite,
                const Deadline& deadline);
  // Waits until somebody sets it.
  Result<std::string> Get(const std::string& key, const Deadline& deadline);
  // NOT_FOUND if nobody has.
  Result<std::string> TryGet(const std::string& key, const Deadline& deadline);
  Result<KeyValueStore::Entries> List(const std::string& prefix, const Deadline& deadline);
  Status Delete(const std::string& key, bool directory, const Deadline& deadline);

  // The latest that came.
  MembershipView view() const LS_EXCLUDES(mu_);
  // Why this task is out; OK while it is not.
  Status failure() const LS_EXCLUDES(mu_);
  // The coordinator's, once registered.
  std::chrono::milliseconds heartbeat() const LS_EXCLUDES(mu_);

 private:
  Result<std::string> Call(std::string_view method, Result<std::string> body,
                           const Deadline& deadline) const;
  Status RegisterOnce(const Deadline& deadline) LS_EXCLUDES(mu_);
  void Beat() LS_EXCLUDES(mu_);
  void Watch() LS_EXCLUDES(mu_);
  void StartWatch() LS_EXCLUDES(mu_);
  bool TakeView(const std::string& reply) LS_EXCLUDES(mu_);
  void OnView(const Result<std::string>& reply) LS_EXCLUDES(mu_);
  void Fail(const Status& why) LS_EXCLUDES(mu_);
  void StopThreads() LS_EXCLUDES(mu_);

  const Options options_;
  const std::string fingerprint_;
  const std::shared_ptr<internal::RpcChannel> channel_;
  mutable Mutex mu_;
  CondVar changed_;
  std::chrono::milliseconds heartbeat_ LS_GUARDED_BY(mu_){0};
  bool stopping_ LS_GUARDED_BY(mu_) = false;
  MembershipView view_ LS_GUARDED_BY(mu_);
  Status failure_ LS_GUARDED_BY(mu_);
  // A watch is on its way, or is being started: this object must stay until neither is true.
  bool watching_ LS_GUARDED_BY(mu_) = false;
  int starting_ LS_GUARDED_BY(mu_) = 0;
  uint64_t started_ LS_GUARDED_BY(mu_) = 0;
  std::shared_ptr<internal::RpcPending> watch_ LS_GUARDED_BY(mu_);
  std::thread beats_;
};

}  // namespace lockstep::cluster
