// GradientLayout: where the tensors that replicas add up (gradients, statistics, metrics) lie in
// one flat block of float32, and the buckets that the block is added up in. A function of the graph
// and the size of a bucket alone; the sums do not depend on that size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/base/result.h"
#include "lockstep/graph/node.h"
#include "lockstep/tensor/buffer.h"

namespace lockstep::strategy {

class GradientLayout {
 public:
  struct Slot {
    Shape shape;
    int64_t begin = 0;  // element of the block; the address is aligned to Buffer::kAlignment
    int64_t count = 0;
  };

  // Slots [first_slot, first_slot + slots), one at least; in the block they are the elements
  // [begin, begin + count), and what lies between them.
  struct Bucket {
    size_t first_slot = 0;
    size_t slots = 0;
    int64_t begin = 0;
    int64_t count = 0;
  };

  // What the last bucket may hold at most, besides one tensor: it is complete when a replica's step
  // ends, and nothing hides the time of its sum.
  static constexpr size_t kLastBucketBytes = size_t{1} << 20;

  // `values` in the order in which they come to be, which is that of the buckets. A tensor that is
  // larger than `bucket_bytes` has a bucket of its own. Errors: INVALID_ARGUMENT for a value that
  // is not float32 or whose shape is open.
  static Result<GradientLayout> Create(const std::vector<Value>& values, size_t bucket_bytes);

  const std::vector<Slot>& slots() const { return slots_; }

  const std::vector<Bucket>& buckets() const { return buckets_; }

  // Of the block.
  int64_t elements() const { return elements_; }

 private:
  // From the last slot to the first.
  void MakeBuckets(size_t bucket_bytes);

  std::vector<Slot> slots_;
  std::vector<Bucket> buckets_;
  int64_t elements_ = 0;
};

}  // namespace lockstep::strategy
