// Sums of many float32 values with small error and the same bits for any number of threads: fixed
// partial sums in float, combined in double. Error about 1e-6 relative to the sum of absolute
// values.
#pragma once

#include <cstdint>

namespace lockstep::op {

double SumFloats(const float* x, int64_t count);
double SumSquares(const float* x, int64_t count);

// out[c] = sum over r of x[r * row_stride + c] for c in [0, columns); added to out[c] if
// `accumulate`.
void SumColumns(const float* x, int64_t rows, int64_t columns, int64_t row_stride, bool accumulate,
                float* out);

}  // namespace lockstep::op
