// FixedLinks: data links that were there before the server, such as those of a simulated network.
#pragma once

#include <memory>
#include <vector>

#include "lockstep/cluster/worker/task_links.h"

namespace lockstep::cluster::internal {

class FixedLinks : public TaskLinks {
 public:
  explicit FixedLinks(std::shared_ptr<net::Transport> transport)
      : transport_(std::move(transport)) {}

  const std::shared_ptr<net::Transport>& transport() const override { return transport_; }

  Status Connect(const std::vector<TaskStart>& tasks, const Deadline& /*deadline*/) override {
    for (const TaskStart& task : tasks) {
      LS_TRY(transport_->peer_status(task.number));
    }
    return OkStatus();
  }

 private:
  const std::shared_ptr<net::Transport> transport_;
};

}  // namespace lockstep::cluster::internal
