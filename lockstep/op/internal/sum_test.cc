#include "lockstep/op/internal/sum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "lockstep/op/internal/block_sum.h"

namespace lockstep::op {
namespace {

// Values of both signs and several magnitudes.
std::vector<float> Values(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  uint32_t state = 12345;
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(static_cast<int32_t>(state) >> 8) * 0x1.0p-20F;
  }
  return values;
}

TEST(SumTest, AgreesWithDoubleForAnyCount) {
  for (const int64_t count : {0, 1, 31, 32, 33, 4095, 4096, 4097, 100003}) {
    const std::vector<float> x = Values(count);
    double sum = 0.0;
    double magnitudes = 0.0;
    double squares = 0.0;
    for (const float value : x) {
      sum += value;
      magnitudes += std::abs(value);
      squares += static_cast<double>(value) * value;
    }
    EXPECT_NEAR(SumFloats(x.data(), count), sum, 1e-6 * magnitudes) << count;
    EXPECT_NEAR(SumSquares(x.data(), count), squares, 1e-6 * squares) << count;
  }
}

TEST(SumTest, ManyEqualValuesDoNotDrift) {
  constexpr int64_t kCount = int64_t{1} << 22;
  const std::vector<float> x(kCount, 0.1F);
  EXPECT_NEAR(SumFloats(x.data(), kCount) / static_cast<double>(kCount), 0.1F, 2e-7);
}

TEST(SumTest, ColumnsOfAnyWidth) {
  for (const int64_t columns : {1, 3, 10, 32, 47, 48, 64, 100, 1025}) {
    for (const int64_t rows : {0, 1, 5, 130, 700}) {
      for (const int64_t gap : {0, 3}) {
        const int64_t stride = columns + gap;
        const std::vector<float> x = Values(rows * stride);
        std::vector<float> out(static_cast<size_t>(columns), 5.0F);
        SumColumns(x.data(), rows, columns, stride, true, out.data());
        for (int64_t c = 0; c < columns; ++c) {
          double sum = 5.0;
          double magnitudes = 5.0;
          for (int64_t r = 0; r < rows; ++r) {
            sum += x[static_cast<size_t>(r * stride + c)];
            magnitudes += std::abs(x[static_cast<size_t>(r * stride + c)]);
          }
          ASSERT_NEAR(out[static_cast<size_t>(c)], sum, 1e-6 * magnitudes)
              << rows << " x " << columns << " column " << c;
        }
      }
    }
  }
}

TEST(BlockSumTest, ThreadsDoNotChangeTheBits) {
  constexpr int64_t kCount = 3 * kSumBlock + 77;
  const std::vector<float> x = Values(kCount);
  std::vector<double> scratch(BlockSumScratch(kCount) / sizeof(double));
  ASSERT_EQ(scratch.size(), 4U);
  const double one = SumSquaresInBlocks(1, x.data(), kCount, scratch.data());
  EXPECT_EQ(one, SumSquaresInBlocks(2, x.data(), kCount, scratch.data()));
  EXPECT_NEAR(one, SumSquares(x.data(), kCount), 1e-9 * one);
}

}  // namespace
}  // namespace lockstep::op
