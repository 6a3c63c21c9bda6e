#include "lockstep/net/testing/local_cluster.h"

#include <fmt/format.h>

#include <thread>
#include <utility>

namespace lockstep::net::testing {

class LocalExchange::End : public BlobExchange {
 public:
  End(LocalExchange& exchange, PeerId task) : exchange_(exchange), task_(task) {}

  Status Put(std::string blob, const Deadline&) override {
    MutexLock lock(exchange_.mu_);
    exchange_.blobs_[task_] = std::move(blob);
    exchange_.came_.NotifyAll();
    return OkStatus();
  }

  Result<std::string> Get(PeerId task, const Deadline& deadline) override {
    MutexLock lock(exchange_.mu_);
    while (exchange_.blobs_.count(task) == 0) {
      if (!exchange_.came_.WaitUntil(exchange_.mu_, deadline)) {
        return DeadlineExceeded(fmt::format("task {} put nothing", task));
      }
    }
    return exchange_.blobs_[task];
  }

 private:
  LocalExchange& exchange_;
  PeerId task_;
};

std::unique_ptr<BlobExchange> LocalExchange::For(PeerId task) {
  return std::make_unique<End>(*this, task);
}

Result<std::unique_ptr<LocalCluster>> LocalCluster::Create(int num_tasks,
                                                           const std::vector<LinkChoice>& links) {
  auto cluster = std::make_unique<LocalCluster>();
  LocalExchange exchange;
  std::vector<Status> status(static_cast<size_t>(num_tasks));
  cluster->transports_.resize(static_cast<size_t>(num_tasks));
  WireUpOptions options;
  for (int task = 0; task < num_tasks; ++task) {
    options.tasks.push_back(fmt::format("/job:worker/task:{}", task));
  }
  options.job_secret = "the secret of this test";
  options.links = links;
  {
    std::vector<std::jthread> threads;
    for (int task = 0; task < num_tasks; ++task) {
      threads.emplace_back([&, task, mine = options]() mutable {
        mine.self = task;
        const auto end = exchange.For(task);
        Result<std::unique_ptr<Transport>> transport =
            WireUp(mine, *end, Deadline::After(std::chrono::seconds(20)));
        const auto t = static_cast<size_t>(task);
        if (transport.ok()) {
          cluster->transports_[t] = std::move(transport).value();
        } else {
          status[t] = transport.status();
        }
      });
    }
  }
  for (const Status& one : status) {
    LS_TRY(one);
  }
  return cluster;
}

void LocalCluster::RunTasks(const std::function<void(PeerId)>& run) {
  std::vector<std::jthread> threads;
  for (size_t task = 0; task < transports_.size(); ++task) {
    threads.emplace_back([&run, task] { run(static_cast<PeerId>(task)); });
  }
}

std::unique_ptr<TestCluster> MakeLocalCluster(int num_tasks, const std::vector<LinkChoice>& links) {
  Result<std::unique_ptr<LocalCluster>> cluster = LocalCluster::Create(num_tasks, links);
  if (!cluster.ok()) {
    ADD_FAILURE() << cluster.status().ToString();
    std::abort();
  }
  return std::move(cluster).value();
}

}  // namespace lockstep::net::testing
