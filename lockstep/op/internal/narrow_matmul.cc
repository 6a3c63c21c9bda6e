#include "lockstep/op/internal/narrow_matmul.h"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <type_traits>

#include "lockstep/op/internal/parallel.h"

namespace lockstep::op::internal {
namespace {

constexpr int64_t kLanes = 8;
// Columns whose accumulators, times two rows, fit into the registers.
constexpr int64_t kMaxColumns = 5;
// Bytes of b that are kept in the first-level cache.
constexpr int64_t kCachedBytes = 16384;
// Terms added up in one accumulator of NarrowOuter.
constexpr int64_t kOuterTerms = 256;
constexpr int64_t kRowGrain = 16;

// All ones in the first `count` lanes.
__m256i MaskOf(int64_t count) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), lane);
}

// Keeps a loaded vector in a register: compilers would rather load it again for each use, and loads
// are what these loops are bound by.
__m256 InRegister(__m256 v) {
  __asm__("" : "+x"(v));
  return v;
}

float SumOf(__m256 v) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

// Columns are taken in groups of nearly equal size.
struct Columns {
  int64_t groups;
  int64_t size;

  explicit Columns(int64_t n)
      : groups((n + kMaxColumns - 1) / kMaxColumns), size((n + groups - 1) / groups) {}
};

// Calls body with `count` in [1, 5] as a constant.
template <class Body>
void WithCount(int64_t count, const Body& body) {
  switch (count) {
    case 1:
      return body(std::integral_constant<int, 1>());
    case 2:
      return body(std::integral_constant<int, 2>());
    case 3:
      return body(std::integral_constant<int, 3>());
    case 4:
      return body(std::integral_constant<int, 4>());
    default:
      return body(std::integral_constant<int, 5>());
  }
}

struct DotBlock {
  int64_t k;      // row length of a and b
  int64_t begin;  // terms of this block
  int64_t end;
  int64_t n;  // row length of y and of the partial sums
  bool first;
  bool last;
};

// Sums of a block of terms for kRows rows and kColumns columns. Between blocks the vectors of
// partial sums rest in `partial`.
template <int kRows, int kColumns>
void DotTile(const DotBlock& block, const float* a, const float* b, float* y, float* partial) {
  __m256 sums[kRows][kColumns];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 5
    for (int c = 0; c < kColumns; ++c) {
      sums[r][c] =
          block.first ? _mm256_setzero_ps() : _mm256_loadu_ps(partial + (r * block.n + c) * kLanes);
    }
  }
  int64_t k = block.begin;
  for (; k + kLanes <= block.end; k += kLanes) {
    __m256 left[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      left[r] = _mm256_loadu_ps(a + r * block.k + k);
    }
#pragma GCC unroll 5
    for (int c = 0; c < kColumns; ++c) {
      const __m256 right = InRegister(_mm256_loadu_ps(b + c * block.k + k));
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        sums[r][c] = _mm256_fmadd_ps(left[r], right, sums[r][c]);
      }
    }
  }
  if (k < block.end) {
    const __m256i mask = MaskOf(block.end - k);
#pragma GCC unroll 5
    for (int c = 0; c < kColumns; ++c) {
      const __m256 right = _mm256_maskload_ps(b + c * block.k + k, mask);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const __m256 left = _mm256_maskload_ps(a + r * block.k + k, mask);
        sums[r][c] = _mm256_fmadd_ps(left, right, sums[r][c]);
      }
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 5
    for (int c = 0; c < kColumns; ++c) {
      if (block.last) {
        y[r * block.n + c] = SumOf(sums[r][c]);
      } else {
        _mm256_storeu_ps(partial + (r * block.n + c) * kLanes, sums[r][c]);
      }
    }
  }
}

// kRows rows of one block of terms: all columns while the rows of a are in the cache.
template <int kRows>
void DotColumns(const DotBlock& block, const Columns& columns, const float* a, const float* b,
                float* y, float* partial) {
  for (int64_t c = 0; c < block.n; c += columns.size) {
    WithCount(std::min(columns.size, block.n - c), [&](auto count) {
      DotTile<kRows, count>(block, a, b + c * block.k, y + c, partial + c * kLanes);
    });
  }
}

// Rows [begin, end) of one block of terms.
void DotRows(const DotBlock& block, int64_t begin, int64_t end, const float* a, const float* b,
             float* y, float* partial) {
  const Columns columns(block.n);
  int64_t row = begin;
  while (row < end) {
    const float* left = a + row * block.k;
    float* out = y + row * block.n;
    float* sums = partial + row * block.n * kLanes;
    if (columns.size <= 3 && row + 4 <= end) {
      DotColumns<4>(block, columns, left, b, out, sums);
      row += 4;
    } else if (row + 2 <= end) {
      DotColumns<2>(block, columns, left, b, out, sums);
      row += 2;
    } else {
      DotColumns<1>(block, columns, left, b, out, sums);
      row += 1;
    }
  }
}

int64_t TermsInBlock(int64_t n, int64_t k) {
  const int64_t most = std::max<int64_t>(kCachedBytes / (n * 4) / kLanes * kLanes, kLanes);
  const int64_t blocks = (k + most - 1) / most;
  return ((k + blocks - 1) / blocks + kLanes - 1) / kLanes * kLanes;
}

// Whole vectors, or only some lanes of them.
struct AllLanes {
  static __m256 Load(const float* at) { return InRegister(_mm256_loadu_ps(at)); }

  static void Store(float* at, __m256 v) { _mm256_storeu_ps(at, v); }
};

struct SomeLanes {
  __m256i mask;

  __m256 Load(const float* at) const { return _mm256_maskload_ps(at, mask); }

  void Store(float* at, __m256 v) const { _mm256_maskstore_ps(at, mask, v); }
};

// kVectors vectors of y's rows for kColumns columns of b.
template <int kVectors, int kColumns, class Lanes>
void OuterTile(int64_t m, int64_t n, int64_t k, const float* a, const float* b, float* y,
               const Lanes& lanes) {
  for (int64_t begin = 0; begin < k; begin += kOuterTerms) {
    const int64_t end = std::min(k, begin + kOuterTerms);
    __m256 sums[kColumns][kVectors];
#pragma GCC unroll 5
    for (int c = 0; c < kColumns; ++c) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        sums[c][v] = _mm256_setzero_ps();
      }
    }
    for (int64_t i = begin; i < end; ++i) {
      __m256 left[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        left[v] = lanes.Load(a + i * m + v * kLanes);
      }
#pragma GCC unroll 5
      for (int c = 0; c < kColumns; ++c) {
        const __m256 right = _mm256_broadcast_ss(b + i * n + c);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) {
          sums[c][v] = _mm256_fmadd_ps(left[v], right, sums[c][v]);
        }
      }
    }
#pragma GCC unroll 5
    for (int c = 0; c < kColumns; ++c) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        float* at = y + c * m + v * kLanes;
        const __m256 before = begin == 0 ? _mm256_setzero_ps() : lanes.Load(at);
        lanes.Store(at, _mm256_add_ps(before, sums[c][v]));
      }
    }
  }
}

// Rows [begin, end) of a's columns, that is elements of y's rows.
void OuterRows(int64_t begin, int64_t end, int64_t m, int64_t n, int64_t k, const float* a,
               const float* b, float* y) {
  const Columns columns(n);
  for (int64_t c = 0; c < n; c += columns.size) {
    WithCount(std::min(columns.size, n - c), [&](auto count) {
      constexpr int kVectors = count <= 3 ? 4 : 2;
      constexpr int64_t kStep = kVectors * kLanes;
      int64_t at = begin;
      for (; at + kStep <= end; at += kStep) {
        OuterTile<kVectors, count>(m, n, k, a + at, b + c, y + c * m + at, AllLanes());
      }
      for (; at < end; at += kLanes) {
        OuterTile<1, count>(m, n, k, a + at, b + c, y + c * m + at, SomeLanes{MaskOf(end - at)});
      }
    });
  }
}

}  // namespace

size_t NarrowDotScratch(int64_t m, int64_t n, int64_t k) {
  return TermsInBlock(n, k) >= k ? 0 : static_cast<size_t>(m * n * kLanes);
}

void NarrowDot(int64_t m, int64_t n, int64_t k, const float* a, const float* b, float* y,
               float* scratch, int threads) {
  const int64_t terms = TermsInBlock(n, k);
  ParallelFor(threads, m, kRowGrain, [&](int64_t begin, int64_t end) {
    for (int64_t first = 0; first < k; first += terms) {
      const DotBlock block{.k = k,
                           .begin = first,
                           .end = std::min(k, first + terms),
                           .n = n,
                           .first = first == 0,
                           .last = first + terms >= k};
      DotRows(block, begin, end, a, b, y, scratch);
    }
  });
}

void NarrowOuter(int64_t m, int64_t n, int64_t k, const float* a, const float* b, float* y,
                 int threads) {
  ParallelFor(threads, m, 4 * kLanes,
              [&](int64_t begin, int64_t end) { OuterRows(begin, end, m, n, k, a, b, y); });
}

}  // namespace lockstep::op::internal
