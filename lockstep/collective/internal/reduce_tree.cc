#include "lockstep/collective/internal/reduce_tree.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

namespace lockstep::collective::internal {
namespace {

constexpr int64_t kStripBytes = 8192;
// A tree over 2^62 replicas has no more open values.
constexpr size_t kMaxDepth = 64;

}  // namespace

ReduceTree::ReduceTree(std::span<const ReplicaNode> nodes, int64_t replicas)
    : replicas_(replicas), num_inputs_(nodes.size()) {
  LS_CHECK(!nodes.empty());
  const int64_t begin = nodes.front().begin;
  int64_t size = 1;
  while (begin + size < nodes.back().end) {
    size *= 2;
  }
  LS_CHECK(begin % size == 0);
  size_t next = 0;
  Add(nodes, begin, size, &next);
  LS_CHECK(next == nodes.size());
}

void ReduceTree::Add(std::span<const ReplicaNode> nodes, int64_t begin, int64_t size,
                     size_t* next) {
  LS_CHECK(*next < nodes.size() && nodes[*next].begin == begin);
  if (nodes[*next].end == std::min(begin + size, replicas_)) {
    program_.push_back(static_cast<int>((*next)++));
    return;
  }
  LS_CHECK(size > 1);
  Add(nodes, begin, size / 2, next);
  if (begin + size / 2 < replicas_) {
    Add(nodes, begin + size / 2, size / 2, next);
    program_.push_back(kCombine);
  }
}

void CombineNodes(const NodeArithmetic& arithmetic, const void* a, const void* b, void* out,
                  int64_t count) {
  Combine(arithmetic.op, arithmetic.dtype, a, b, out, count);
  if (arithmetic.codec != Codec::kNone) {
    RoundNode(arithmetic.codec, static_cast<float*>(out), count);
  }
}

void ReduceTree::Run(const NodeArithmetic& arithmetic, std::span<const void* const> inputs,
                     std::span<void* const> outputs, int64_t count, int64_t divisor) const {
  LS_CHECK(inputs.size() == num_inputs_ && !outputs.empty());
  const auto element = static_cast<int64_t>(DTypeSize(arithmetic.dtype));
  const int64_t strip = kStripBytes / element;
  // Two inputs are combined straight into the output, more have values in between.
  std::vector<std::byte> between(num_inputs_ > 2 ? num_inputs_ * kStripBytes : 0);
  std::array<const void*, kMaxDepth> open{};
  for (int64_t begin = 0; begin < count; begin += strip) {
    const int64_t elements = std::min(strip, count - begin);
    const int64_t offset = begin * element;
    const auto bytes = static_cast<size_t>(elements * element);
    void* result = static_cast<std::byte*>(outputs[0]) + offset;
    size_t depth = 0;
    for (size_t i = 0; i < program_.size(); ++i) {
      if (program_[i] != kCombine) {
        open[depth++] =
            static_cast<const std::byte*>(inputs[static_cast<size_t>(program_[i])]) + offset;
        continue;
      }
      depth -= 1;
      void* target = i + 1 == program_.size() ? result : between.data() + depth * kStripBytes;
      CombineNodes(arithmetic, open[depth - 1], open[depth], target, elements);
      open[depth - 1] = target;
    }
    if (open[0] != result) {
      std::memcpy(result, open[0], bytes);
    }
    if (divisor != 1) {
      DivideByReplicas(arithmetic.dtype, result, elements, divisor);
    }
    for (void* output : outputs.subspan(1)) {
      std::memcpy(static_cast<std::byte*>(output) + offset, result, bytes);
    }
  }
}

}  // namespace lockstep::collective::internal
