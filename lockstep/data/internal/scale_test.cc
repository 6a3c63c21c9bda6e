#include "lockstep/data/internal/scale.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep::data::internal {
namespace {

TEST(ScaleTest, EveryByteAtEveryLength) {
  std::vector<uint8_t> bytes(256);
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<uint8_t>(255 - i);
  }
  for (size_t count = 0; count <= bytes.size(); ++count) {
    std::vector<float> scaled(count + 1, -1.0F);
    ScaleBytes(bytes.data(), count, scaled.data());
    for (size_t i = 0; i < count; ++i) {
      ASSERT_FLOAT_EQ(scaled[i], static_cast<float>(255 - i) / 255.0F);
    }
    ASSERT_EQ(scaled[count], -1.0F);
  }
}

TEST(ScaleTest, TheEndsAreExact) {
  const uint8_t ends[] = {0, 255, 0, 255, 0, 255, 0, 255, 0, 255};
  float scaled[10];
  ScaleBytes(ends, 10, scaled);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(scaled[i], static_cast<float>(i % 2));
  }
}

}  // namespace
}  // namespace lockstep::data::internal
