#include "lockstep/op/internal/broadcast_sum.h"

#include <algorithm>

#include "lockstep/op/internal/parallel.h"
#include "lockstep/op/internal/sum.h"

namespace lockstep::op {
namespace {

// What one thread sums at a time.
constexpr int64_t kSumPart = 8192;
constexpr int64_t kColumnBlock = 1024;
constexpr int kRowsPerBlock = 64;

void AddTo(float* sum, const float* x, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    sum[i] += x[i];
  }
}

void AppendAxis(BroadcastPlan& plan, int64_t dim, int64_t stride) {
  const auto axis = static_cast<size_t>(plan.outer_rank++);
  plan.outer_dims[axis] = dim;
  plan.outer_strides[axis][0] = stride;
  plan.rows *= dim;
}

}  // namespace

BroadcastSum::BroadcastSum(const Shape& input, const Shape& output, int threads)
    : threads_(threads) {
  int64_t stride = 1;
  int64_t merged_stride = 1;
  int64_t merged_dim = 1;
  bool merged_kept = false;
  bool is_innermost = true;
  const auto flush = [&] {
    if (is_innermost) {
      inner_ = merged_dim;
      inner_kept_ = merged_kept;
      is_innermost = false;
    } else {
      AppendAxis(merged_kept ? kept_ : summed_, merged_dim, merged_stride);
    }
  };
  bool any = false;
  for (int back = 1; back <= input.rank(); ++back) {
    const int64_t dim = input.dim(-back);
    if (dim == 1) {
      continue;
    }
    const bool kept = back <= output.rank() && output.dim(-back) == dim;
    if (any && kept == merged_kept) {
      merged_dim *= dim;
    } else {
      if (any) {
        flush();
      }
      merged_stride = stride;
      merged_dim = dim;
      merged_kept = kept;
      any = true;
    }
    stride *= dim;
  }
  flush();
}

size_t BroadcastSum::scratch_bytes() const {
  return sums_everything() ? static_cast<size_t>((inner_ + kSumPart - 1) / kSumPart) * sizeof(float)
                           : 0;
}

void BroadcastSum::Run(const float* x, float* y, float* scratch) const {
  if (sums_everything()) {
    SumAll(x, y, scratch);
  } else if (inner_kept_) {
    SumColumns(x, y);
  } else {
    SumRows(x, y);
  }
}

void BroadcastSum::SumAll(const float* x, float* y, float* partials) const {
  const int64_t blocks = (inner_ + kSumPart - 1) / kSumPart;
  ParallelFor(threads_, blocks, 4, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t count = std::min(kSumPart, inner_ - b * kSumPart);
      partials[b] = static_cast<float>(SumFloats(x + b * kSumPart, count));
    }
  });
  *y = static_cast<float>(SumFloats(partials, blocks));
}

void BroadcastSum::SumRows(const float* x, float* y) const {
  const int64_t grain = 1 + kElementGrain / (summed_.rows * inner_ + 1);
  ParallelFor(threads_, kept_.rows, grain, [&](int64_t begin, int64_t end) {
    ForEachRow(kept_, begin, end, [&](int64_t row, const BroadcastOffsets& from) {
      double sum = 0.0;
      ForEachRow(summed_, 0, summed_.rows, [&](int64_t, const BroadcastOffsets& term) {
        sum += SumFloats(x + from[0] + term[0], inner_);
      });
      y[row] = static_cast<float>(sum);
    });
  });
}

void BroadcastSum::SumColumns(const float* x, float* y) const {
  const int64_t column_blocks = (inner_ + kColumnBlock - 1) / kColumnBlock;
  const auto sum_block = [&](int64_t row, int64_t offset, int64_t first) {
    const int64_t count = std::min(kColumnBlock, inner_ - first);
    float* total = y + row * inner_ + first;
    std::array<float, kColumnBlock> block{};
    int rows_in_block = 0;
    std::fill_n(total, count, 0.0F);
    ForEachRow(summed_, 0, summed_.rows, [&](int64_t, const BroadcastOffsets& term) {
      AddTo(block.data(), x + offset + term[0] + first, count);
      if (++rows_in_block == kRowsPerBlock) {
        AddTo(total, block.data(), count);
        std::fill_n(block.data(), count, 0.0F);
        rows_in_block = 0;
      }
    });
    AddTo(total, block.data(), count);
  };
  const int64_t work = summed_.rows * std::min(inner_, kColumnBlock);
  const int64_t grain = 1 + kElementGrain / (work + 1);
  ParallelFor(threads_, kept_.rows * column_blocks, grain, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t row = task / column_blocks;
      ForEachRow(kept_, row, row + 1, [&](int64_t, const BroadcastOffsets& from) {
        sum_block(row, from[0], task % column_blocks * kColumnBlock);
      });
    }
  });
}

}  // namespace lockstep::op
