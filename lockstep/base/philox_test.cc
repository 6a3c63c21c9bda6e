#include "lockstep/base/philox.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lockstep {
namespace {

// Known answers published with the Random123 library (kat_vectors, philox4x32 10).
TEST(PhiloxTest, KnownAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxTest, EveryPartOfTheNameChangesTheStream) {
  const PhiloxBlock base = PhiloxStream(1, "w", 2, 3).Block(4);
  EXPECT_EQ(base, PhiloxStream(1, "w", 2, 3).Block(4));
  EXPECT_NE(base, PhiloxStream(2, "w", 2, 3).Block(4));
  EXPECT_NE(base, PhiloxStream(1, "v", 2, 3).Block(4));
  EXPECT_NE(base, PhiloxStream(1, "w", 3, 3).Block(4));
  EXPECT_NE(base, PhiloxStream(1, "w", 2, 4).Block(4));
  EXPECT_NE(base, PhiloxStream(1, "w", 2, 3).Block(5));
}

TEST(PhiloxTest, UniformAndNormalHaveTheirMoments) {
  const PhiloxStream stream(7, "moments");
  constexpr int kBlocks = 50000;
  double uniform_sum = 0;
  double normal_sum = 0;
  double normal_squares = 0;
  for (int i = 0; i < kBlocks; ++i) {
    const PhiloxBlock block = stream.Block(i);
    uniform_sum += UniformFloat(block[0]);
    const auto normal = NormalPair(block[2], block[3]);
    normal_sum += normal[0] + normal[1];
    normal_squares += normal[0] * normal[0] + normal[1] * normal[1];
  }
  // Five standard errors.
  EXPECT_NEAR(uniform_sum / kBlocks, 0.5, 5 * std::sqrt(1.0 / 12 / kBlocks));
  EXPECT_NEAR(normal_sum / (2 * kBlocks), 0.0, 5 * std::sqrt(1.0 / (2 * kBlocks)));
  EXPECT_NEAR(normal_squares / (2 * kBlocks), 1.0, 5 * std::sqrt(2.0 / (2 * kBlocks)));
}

TEST(PhiloxTest, UniformStaysBelowOne) {
  EXPECT_LT(UniformFloat(0xffffffff), 1.0F);
  EXPECT_EQ(UniformFloat(0), 0.0F);
  EXPECT_EQ(UniformBelow(0xffffffff, 10), 9U);
}

}  // namespace
}  // namespace lockstep
