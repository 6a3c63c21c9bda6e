// TaskLinks: the data links of a task, over which tensors and runs travel. Thread-safe.
#pragma once

#include <memory>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/base/status.h"
#include "lockstep/cluster/coordinator/membership_view.h"
#include "lockstep/net/transport.h"

namespace lockstep::cluster {

class TaskLinks {
 public:
  virtual ~TaskLinks() = default;

  // Tasks have their numbers in the cluster.
  virtual const std::shared_ptr<net::Transport>& transport() const = 0;

  // Returns when there are links to all of them, who have to do the same. Errors name who did not.
  virtual Status Connect(const std::vector<TaskStart>& tasks, const Deadline& deadline) = 0;
};

}  // namespace lockstep::cluster
