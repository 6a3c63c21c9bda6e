// CrossReplicaSum: how what the replicas of this process have added up becomes the sum over all
// replicas of the job, in the order of the one tree (contract C1). Without one, a process executes
// all replicas.
#pragma once

#include <string_view>
#include <vector>

#include "lockstep/base/result.h"
#include "lockstep/collective/tree_sum.h"
#include "lockstep/data/batcher.h"

namespace lockstep::strategy {

class CrossReplicaSum {
 public:
  virtual ~CrossReplicaSum() = default;

  // What a strategy with it is called.
  virtual std::string_view strategy() const = 0;

  // The parts of a step that this process executes; possibly none.
  virtual data::BatchRange parts() const = 0;

  // Memory for the tensors of one part, in the order of TrainGraph::partials. Leaves that are given
  // to Sum lie in it.
  virtual Result<std::vector<Tensor>> AllocatePart() = 0;

  // `held` has added up the parts of this process and is empty afterwards, with their memory as
  // spare, but for what is returned: the sums over all parts. All processes call it once a step.
  virtual Result<std::vector<Tensor>> Sum(collective::TreeSum& held) = 0;
};

}  // namespace lockstep::strategy
