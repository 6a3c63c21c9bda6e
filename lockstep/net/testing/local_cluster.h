// Clusters of real links whose tasks live in this process, for tests.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/mutex.h"
#include "lockstep/net/testing/conformance.h"
#include "lockstep/net/wire_up.h"

namespace lockstep::net::testing {

// An exchange in memory, shared by the tasks.
class LocalExchange {
 public:
  class End;

  std::unique_ptr<BlobExchange> For(PeerId task);

 private:
  Mutex mu_;
  CondVar came_;
  std::map<PeerId, std::string> blobs_ LS_GUARDED_BY(mu_);
};

// Tasks "/job:worker/task:N", all with the same secret.
class LocalCluster : public TestCluster {
 public:
  static Result<std::unique_ptr<LocalCluster>> Create(int num_tasks,
                                                      const std::vector<LinkChoice>& links);

  Transport& transport(PeerId task) override { return *transports_.at(static_cast<size_t>(task)); }

  void RunTasks(const std::function<void(PeerId)>& run) override;

 private:
  std::vector<std::unique_ptr<Transport>> transports_;
};

// For Kind::make: a failure to connect fails the test.
std::unique_ptr<TestCluster> MakeLocalCluster(int num_tasks, const std::vector<LinkChoice>& links);

}  // namespace lockstep::net::testing
