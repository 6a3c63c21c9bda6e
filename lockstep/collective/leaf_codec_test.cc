#include "lockstep/collective/leaf_codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep::collective {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Values of many magnitudes, different at every step.
std::vector<float> Gradient(size_t elements, int step) {
  std::vector<float> values(elements);
  for (size_t i = 0; i < elements; ++i) {
    const double angle = 0.37 * static_cast<double>(i) + 1.7 * step;
    values[i] = static_cast<float>(std::sin(angle) * std::exp(2.0 * std::cos(3.1 * angle)) +
                                   0.01 * static_cast<double>(i % 7));
  }
  return values;
}

float Largest(const std::vector<float>& values, size_t begin, size_t end) {
  float largest = 0;
  for (size_t i = begin; i < std::min(end, values.size()); ++i) {
    largest = std::max(largest, std::fabs(values[i]));
  }
  return largest;
}

double SquaredSum(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) {
    sum += static_cast<double>(value) * value;
  }
  return sum;
}

TEST(LeafCodecTest, Int8StaysWithinTheBoundOfItsBlock) {
  for (const float scale : {1.0F, 1e-20F, 3e37F}) {
    LeafCodec codec({.codec = Codec::kInt8});
    std::vector<float> values = Gradient(2500, 0);
    // So that some blocks are far below others.
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] *= scale * (i < 1024 ? 1e-3F : 1.0F);
    }
    const std::vector<float> original = values;
    ASSERT_TRUE(codec.Apply(0, values).ok());
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t block = i / 1024 * 1024;
      const float bound = Largest(original, block, block + 1024) / 127;
      EXPECT_LE(std::fabs(values[i] - original[i]), bound) << i;
      EXPECT_EQ(codec.residuals()[0][i], original[i] - values[i]) << i;
    }
  }
}

TEST(LeafCodecTest, Int8OfTheLargestValuesIsFinite) {
  LeafCodec codec({.codec = Codec::kInt8});
  const float largest = std::numeric_limits<float>::max();
  std::vector<float> values = {largest, -largest, 1.0F, 0.0F};
  ASSERT_TRUE(codec.Apply(0, values).ok());
  EXPECT_TRUE(std::isfinite(values[0]) && std::isfinite(values[1]));
  EXPECT_LE(largest - values[0], largest / 127);
}

TEST(LeafCodecTest, TopKKeepsTheLargestAndTheFirstOfEqualOnes) {
  LeafCodec codec({.codec = Codec::kTopK, .top_share = 0.4});
  std::vector<float> values = {1, -3, 3, 0.5, -3, 3, 2, 0, 0, 0};
  ASSERT_TRUE(codec.Apply(0, values).ok());
  EXPECT_EQ(values, (std::vector<float>{0, -3, 3, 0, -3, 3, 0, 0, 0, 0}));
  EXPECT_EQ(codec.residuals()[0], (std::vector<float>{1, 0, 0, 0.5, 0, 0, 2, 0, 0, 0}));
  values = {0, 0, 0, 5, 0, 0, 0, 5, 5, 5};
  ASSERT_TRUE(codec.Apply(0, values).ok());
  EXPECT_EQ(values, (std::vector<float>{0, 0, 0, 5.5, 0, 0, 0, 5, 5, 5}));
  EXPECT_EQ(codec.residuals()[0], (std::vector<float>{1, 0, 0, 0, 0, 0, 2, 0, 0, 0}));
}

TEST(LeafCodecTest, TopKLosesNoMoreThanTheStatedShare) {
  for (const double share : {0.001, 0.1, 0.5, 1.0}) {
    LeafCodec codec({.codec = Codec::kTopK, .top_share = share});
    std::vector<float> values = Gradient(1777, 3);
    const double all = SquaredSum(values);
    ASSERT_TRUE(codec.Apply(0, values).ok());
    const auto kept = std::count_if(values.begin(), values.end(), [](float v) { return v != 0; });
    EXPECT_EQ(kept, static_cast<std::ptrdiff_t>(std::ceil(share * 1777)));
    EXPECT_LE(SquaredSum(codec.residuals()[0]), (1 - static_cast<double>(kept) / 1777) * all);
  }
}

// The sum over steps of what is sent differs from that of the gradients by one residual, which does
// not grow; what is dropped without feedback adds up.
TEST(LeafCodecTest, WithFeedbackTheSumOverStepsFollowsTheTrueOne) {
  constexpr size_t kElements = 3000;
  constexpr int kSteps = 200;
  const CodecOptions cases[] = {{.codec = Codec::kInt8},
                                {.codec = Codec::kTopK, .top_share = 0.05}};
  for (const CodecOptions& options : cases) {
    LeafCodec codec(options);
    std::vector<double> truth(kElements);
    std::vector<double> sent(kElements);
    std::vector<double> without(kElements);
    double half_way = 0;
    for (int step = 1; step <= kSteps; ++step) {
      std::vector<float> values = Gradient(kElements, step);
      std::vector<float> dropped = values;
      for (size_t i = 0; i < kElements; ++i) {
        truth[i] += values[i];
      }
      ASSERT_TRUE(codec.Apply(0, values).ok());
      LeafCodec forgetful(options);
      ASSERT_TRUE(forgetful.Apply(0, dropped).ok());
      double error = 0;
      for (size_t i = 0; i < kElements; ++i) {
        sent[i] += values[i];
        without[i] += dropped[i];
        error = std::max(error, std::fabs(truth[i] - sent[i]));
        // One residual, but for the rounding of float32 sums.
        EXPECT_NEAR(truth[i] - sent[i], codec.residuals()[0][i], 1e-3) << i;
      }
      if (step == kSteps / 2) {
        half_way = error;
      }
    }
    double with_feedback = 0;
    double without_feedback = 0;
    for (size_t i = 0; i < kElements; ++i) {
      with_feedback = std::max(with_feedback, std::fabs(truth[i] - sent[i]));
      without_feedback = std::max(without_feedback, std::fabs(truth[i] - without[i]));
    }
    EXPECT_LT(with_feedback, 1.5 * half_way);
    EXPECT_LT(2 * with_feedback, without_feedback) << CodecName(options.codec);
  }
}

TEST(LeafCodecTest, AnotherTaskGoesOnWithTheResiduals) {
  for (const Codec codec : {Codec::kInt8, Codec::kTopK}) {
    LeafCodec whole({.codec = codec});
    LeafCodec first({.codec = codec});
    LeafCodec second({.codec = codec});
    for (int step = 0; step < 6; ++step) {
      if (step == 3) {
        ASSERT_TRUE(second.Restore(first.residuals()).ok());
      }
      LeafCodec& part = step < 3 ? first : second;
      for (const size_t index : {2, 0}) {
        std::vector<float> expected = Gradient(700 + 100 * index, step);
        std::vector<float> found = expected;
        ASSERT_TRUE(whole.Apply(index, expected).ok());
        ASSERT_TRUE(part.Apply(index, found).ok());
        EXPECT_EQ(found, expected);
      }
    }
    EXPECT_EQ(second.residuals(), whole.residuals());
    EXPECT_EQ(whole.residuals()[1].size(), 0U);
  }
}

TEST(LeafCodecTest, WhatIsNoNumberStaysWhatItIs) {
  for (const Codec codec : {Codec::kBFloat16, Codec::kFloat16, Codec::kInt8, Codec::kTopK}) {
    LeafCodec leaf({.codec = codec, .top_share = 0.1});
    std::vector<float> values = {1, kInfinity, -2, std::nanf(""), -kInfinity, 0.25F, -0.0F,
                                 0, 0,         8};
    ASSERT_TRUE(leaf.Apply(0, values).ok());
    EXPECT_EQ(values[1], kInfinity);
    EXPECT_TRUE(std::isnan(values[3]));
    EXPECT_EQ(values[4], -kInfinity);
    if (LeafCodec::HasResiduals(codec)) {
      EXPECT_EQ(leaf.residuals()[0][1], 0);
      EXPECT_EQ(leaf.residuals()[0][3], 0);
      EXPECT_FALSE(std::signbit(values[6]));
    } else {
      EXPECT_TRUE(leaf.residuals().empty());
    }
  }
}

TEST(LeafCodecTest, WhatDoesNotFitIsRefused) {
  LeafCodec int8({.codec = Codec::kInt8});
  std::vector<float> values(10, 1.0F);
  EXPECT_TRUE(int8.Apply(0, {}).ok());
  EXPECT_TRUE(int8.Apply(1, values).ok());
  const Status size = int8.Apply(1, std::span(values).first(9));
  EXPECT_EQ(size.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(size.message().find("value 1 has 9 elements: its residual has 10"), std::string::npos);
  for (const double share : {0.0, -1.0, 1.5, std::nan("")}) {
    LeafCodec top({.codec = Codec::kTopK, .top_share = share});
    EXPECT_EQ(top.Apply(0, values).code(), StatusCode::kInvalidArgument);
  }
  LeafCodec bf16({.codec = Codec::kBFloat16});
  EXPECT_EQ(bf16.Restore({{1.0F}}).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::collective
