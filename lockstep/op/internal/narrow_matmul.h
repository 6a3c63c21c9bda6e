// Matrix products with few columns (a layer with few outputs: forward and filter gradient), for
// which general routines waste most of a vector. AVX2, float32. The order of summation does not
// depend on the number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::op::internal {

inline constexpr int64_t kNarrowColumns = 16;

// Floats of scratch memory that NarrowDot needs.
size_t NarrowDotScratch(int64_t m, int64_t n, int64_t k);

// y[m][n] = sum over k of a[m][k] * b[n][k], n <= kNarrowColumns.
void NarrowDot(int64_t m, int64_t n, int64_t k, const float* a, const float* b, float* y,
               float* scratch, int threads);

// y[n][m] = sum over k of a[k][m] * b[k][n], n <= kNarrowColumns.
void NarrowOuter(int64_t m, int64_t n, int64_t k, const float* a, const float* b, float* y,
                 int threads);

}  // namespace lockstep::op::internal
