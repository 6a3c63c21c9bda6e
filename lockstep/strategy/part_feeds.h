// PartFeeds: the features and labels of one part of a step, in memory that the next one uses
// again.
#pragma once

#include <memory>
#include <vector>

#include "lockstep/graph/node.h"
#include "lockstep/tensor/tensor.h"
#include "lockstep/train/step_runner.h"

namespace lockstep::strategy {

class PartFeeds {
 public:
  // Puts the samples of a part into feeds[0], float32 of the shape of `features`, whose batch is
  // open, and feeds[1], int32. They are valid until the next call. Returns their number.
  Result<int64_t> Load(const train::StepRequest& request, int part, const Value& features,
                       std::vector<Tensor>& feeds);

 private:
  std::shared_ptr<Buffer> features_;
  std::shared_ptr<Buffer> labels_;
  int64_t capacity_ = 0;  // samples
};

}  // namespace lockstep::strategy
