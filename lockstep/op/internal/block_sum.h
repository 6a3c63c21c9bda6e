// Sums over long arrays by several threads with the same bits for any number of them: fixed blocks,
// whose sums lie in scratch memory and are added in order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "lockstep/op/internal/parallel.h"
#include "lockstep/op/internal/sum.h"

namespace lockstep::op {

inline constexpr int64_t kSumBlock = 65536;

// Bytes of scratch for `count` elements.
inline size_t BlockSumScratch(int64_t count) {
  return static_cast<size_t>((count + kSumBlock - 1) / kSumBlock) * sizeof(double);
}

// The sum of sum_range(begin, end), a double, over the blocks of [0, count).
template <class SumRange>
double SumInBlocks(int threads, int64_t count, void* scratch, const SumRange& sum_range) {
  auto* sums = static_cast<double*>(scratch);
  const int64_t blocks = (count + kSumBlock - 1) / kSumBlock;
  ParallelFor(threads, blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      sums[block] = sum_range(block * kSumBlock, std::min((block + 1) * kSumBlock, count));
    }
  });
  double total = 0.0;
  for (int64_t block = 0; block < blocks; ++block) {
    total += sums[block];
  }
  return total;
}

inline double SumSquaresInBlocks(int threads, const float* x, int64_t count, void* scratch) {
  return SumInBlocks(threads, count, scratch, [&](int64_t begin, int64_t end) {
    return SumSquares(x + begin, end - begin);
  });
}

}  // namespace lockstep::op
