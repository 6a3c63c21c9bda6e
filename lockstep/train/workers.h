// Workers: the processes that train one job together, as the trainer sees them: each makes the same
// calls in the same order. Every call waits for all of them and ends, with an error that names who
// is missing or lost, when one does not come.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/base/result.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::train {

class Workers {
 public:
  virtual ~Workers() = default;

  // This process is number `self` of `count`. Number 0 is the chief.
  virtual int self() const = 0;
  virtual int count() const = 0;
  // "/job:worker/task:1".
  virtual std::string name(int worker) const = 0;

  // True if one of them says so.
  virtual Result<bool> Any(bool mine) = 0;

  // `values` has a part of each worker, counts[i] long, in their order; each fills its own in, and
  // gets those of the others.
  virtual Status AllGather(std::string_view name, std::span<int64_t> values,
                           std::span<const int64_t> counts) = 0;

  // The chief's values; of the same type and shape everywhere.
  virtual Status Broadcast(std::string_view name, const Tensor& values) = 0;
};

}  // namespace lockstep::train
