#include "lockstep/op/internal/sum.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace lockstep::op {
namespace {

constexpr int kLanes = 32;
constexpr int64_t kChunk = 1024;
constexpr int64_t kRowBlock = 128;
// A wide row is a multiple of this.
constexpr int64_t kStrip = 64;
constexpr int64_t kTile = 1024;
// Rows narrower than this are read several at a time as one wide row.
constexpr int64_t kNarrow = 48;

struct Itself {
  float operator()(float x) const { return x; }
};

struct Squared {
  float operator()(float x) const { return x * x; }
};

template <class Map>
double SumMapped(const float* x, int64_t count, Map map) {
  double total = 0.0;
  for (int64_t start = 0; start < count; start += kChunk) {
    const int64_t end = std::min(start + kChunk, count);
    std::array<float, kLanes> lanes{};
    int64_t i = start;
    for (; i + kLanes <= end; i += kLanes) {
      for (int lane = 0; lane < kLanes; ++lane) {
        lanes[static_cast<size_t>(lane)] += map(x[i + lane]);
      }
    }
    double chunk = 0.0;
    for (const float lane : lanes) {
      chunk += lane;
    }
    for (; i < end; ++i) {
      chunk += map(x[i]);
    }
    total += chunk;
  }
  return total;
}

// part[c] += the sum of the column c over `rows` rows. Four rows a time, so that the partial sums,
// which stay in the first-level cache, are touched once for four loads.
void AddRows(const float* x, int64_t rows, int64_t columns, int64_t row_stride, float* part) {
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const float* row0 = x + r * row_stride;
    const float* row1 = row0 + row_stride;
    const float* row2 = row1 + row_stride;
    const float* row3 = row2 + row_stride;
    for (int64_t c = 0; c < columns; ++c) {
      part[c] += (row0[c] + row1[c]) + (row2[c] + row3[c]);
    }
  }
  for (; r < rows; ++r) {
    const float* row = x + r * row_stride;
    for (int64_t c = 0; c < columns; ++c) {
      part[c] += row[c];
    }
  }
}

// Tiles of columns outside, blocks of rows inside.
void SumTiles(const float* x, int64_t rows, int64_t columns, int64_t row_stride, bool accumulate,
              float* out) {
  for (int64_t tile = 0; tile < columns; tile += kTile) {
    const int64_t width = std::min(kTile, columns - tile);
    std::array<double, kTile> total;
    for (int64_t c = 0; c < width; ++c) {
      total[static_cast<size_t>(c)] = accumulate ? out[tile + c] : 0.0;
    }
    for (int64_t row = 0; row < rows; row += kRowBlock) {
      const int64_t block = std::min(kRowBlock, rows - row);
      std::array<float, kTile> part;
      std::fill_n(part.data(), width, 0.0F);
      AddRows(x + row * row_stride + tile, block, width, row_stride, part.data());
      for (int64_t c = 0; c < width; ++c) {
        total[static_cast<size_t>(c)] += part[static_cast<size_t>(c)];
      }
    }
    for (int64_t c = 0; c < width; ++c) {
      out[tile + c] = static_cast<float>(total[static_cast<size_t>(c)]);
    }
  }
}

}  // namespace

double SumFloats(const float* x, int64_t count) {
  return SumMapped(x, count, Itself());
}

double SumSquares(const float* x, int64_t count) {
  return SumMapped(x, count, Squared());
}

void SumColumns(const float* x, int64_t rows, int64_t columns, int64_t row_stride, bool accumulate,
                float* out) {
  const int64_t group = columns > 0 ? kStrip / std::gcd(columns, kStrip) : 0;
  if (columns == 0 || columns >= kNarrow || row_stride != columns || rows < 2 * group) {
    SumTiles(x, rows, columns, row_stride, accumulate, out);
    return;
  }
  // `group` rows side by side are a wide row of whole strips.
  std::array<float, kStrip * kNarrow> wide;
  const int64_t wide_rows = rows / group;
  const int64_t wide_columns = group * columns;
  SumTiles(x, wide_rows, wide_columns, wide_columns, false, wide.data());
  SumTiles(wide.data(), group, columns, columns, accumulate, out);
  SumTiles(x + wide_rows * wide_columns, rows - wide_rows * group, columns, columns, true, out);
}

}  // namespace lockstep::op
