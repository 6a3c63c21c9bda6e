// The part that softmax and the cross entropies share: exponentials of rows, shifted by each row's
// maximum so that nothing overflows.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "lockstep/op/internal/sum.h"
#include "lockstep/op/internal/vector_math.h"

namespace lockstep::op {

inline void ExpOfFloats(const float* x, int64_t count, float* y) {
  for (int64_t i = 0; i < count; ++i) {
    y[i] = vec::Exp(x[i]);
  }
}

// The maximum of `count` (1 or more) values; what it is with NaN among them is not defined.
inline float MaxOfFloats(const float* x, int64_t count) {
  constexpr int64_t kLanes = 16;
  float result = x[0];
  int64_t i = 0;
  if (count >= kLanes) {
    std::array<float, kLanes> lanes;
    std::copy_n(x, kLanes, lanes.data());
    for (i = kLanes; i + kLanes <= count; i += kLanes) {
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        float& largest = lanes[static_cast<size_t>(lane)];
        largest = x[i + lane] > largest ? x[i + lane] : largest;
      }
    }
    result = *std::max_element(lanes.begin(), lanes.end());
  }
  for (; i < count; ++i) {
    result = x[i] > result ? x[i] : result;
  }
  return result;
}

// The sum of `count` values of one sign.
inline float SumOfFloats(const float* x, int64_t count) {
  constexpr int64_t kShort = 32;
  if (count >= kShort) {
    return static_cast<float>(SumFloats(x, count));
  }
  float sum = 0.0F;
  for (int64_t i = 0; i < count; ++i) {
    sum += x[i];
  }
  return sum;
}

// For each row r of [begin, end) of x [rows, columns]: y_r = exp(x_r - max of x_r), then
// finish(r, max of x_r, sum of y_r). y may be x.
template <class Finish>
void ExpRows(const float* x, int64_t begin, int64_t end, int64_t columns, float* y,
             const Finish& finish) {
  // Short rows share the vectors of one pass of exponentials.
  constexpr int64_t kStrip = 2048;
  constexpr int64_t kMaxRows = 256;
  std::array<float, kMaxRows> largest;
  const int64_t step = std::clamp(kStrip / columns, int64_t{1}, kMaxRows);
  for (int64_t start = begin; start < end; start += step) {
    const int64_t stop = std::min(start + step, end);
    for (int64_t r = start; r < stop; ++r) {
      const float* from = x + r * columns;
      float* to = y + r * columns;
      const float shift = MaxOfFloats(from, columns);
      largest[static_cast<size_t>(r - start)] = shift;
      for (int64_t c = 0; c < columns; ++c) {
        to[c] = from[c] - shift;
      }
    }
    ExpOfFloats(y + start * columns, (stop - start) * columns, y + start * columns);
    for (int64_t r = start; r < stop; ++r) {
      finish(r, largest[static_cast<size_t>(r - start)], SumOfFloats(y + r * columns, columns));
    }
  }
}

}  // namespace lockstep::op
