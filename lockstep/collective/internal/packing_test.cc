#include "lockstep/collective/internal/packing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace lockstep::collective::internal {
namespace {

constexpr Codec kPackedCodecs[] = {Codec::kNone, Codec::kBFloat16, Codec::kFloat16, Codec::kInt8,
                                   Codec::kTopK};

std::vector<std::byte> Packed(Codec codec, const std::vector<float>& values) {
  const auto count = static_cast<int64_t>(values.size());
  std::vector<std::byte> packed(PackedBound(count));
  packed.resize(Pack(codec, values.data(), count, packed.data()));
  return packed;
}

void ExpectLossless(Codec codec, const std::vector<float>& values) {
  const std::vector<std::byte> packed = Packed(codec, values);
  EXPECT_LE(packed.size(), PackedBound(static_cast<int64_t>(values.size())));
  std::vector<float> back(values.size(), 7.0F);
  const Status status = Unpack(packed, static_cast<int64_t>(back.size()), back.data());
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_TRUE(values.empty() || std::memcmp(back.data(), values.data(), 4 * values.size()) == 0)
      << CodecName(codec);
}

std::vector<float> Multiples(size_t count, int most, float step) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(
                    static_cast<int>(i * 7919 % (2 * static_cast<size_t>(most) + 1)) - most) *
                step;
  }
  return values;
}

TEST(PackingTest, WhatFitsTakesFewBytes) {
  constexpr size_t kCount = 1024;
  EXPECT_EQ(Packed(Codec::kInt8, Multiples(kCount, 127, 0x1p-30F)).size(), kCount + 16);
  EXPECT_EQ(Packed(Codec::kInt8, Multiples(kCount, 32767, 0x1p20F)).size(), 2 * kCount + 16);
  EXPECT_EQ(Packed(Codec::kInt8, Multiples(kCount, 40000, 1.0F)).size(), 4 * kCount + 16);
  EXPECT_EQ(Packed(Codec::kInt8, std::vector<float>(kCount)).size(), 16U);
  EXPECT_EQ(Packed(Codec::kBFloat16, Multiples(kCount, 127, 0x1p-90F)).size(), 2 * kCount + 16);
  EXPECT_EQ(Packed(Codec::kFloat16, Multiples(kCount, 2047, 0x1p-3F)).size(), 2 * kCount + 16);
  std::vector<float> sparse(kCount);
  sparse[3] = 1.1F;
  sparse[1000] = -1e-30F;
  EXPECT_EQ(Packed(Codec::kTopK, sparse).size(), 16U + 2 * 5);
}

TEST(PackingTest, EveryValueComesBackBitByBit) {
  std::mt19937 random(1);
  for (const Codec codec : kPackedCodecs) {
    for (const size_t count : {0, 1, 255, 256, 257, 1000}) {
      ExpectLossless(codec, Multiples(count, 100, 0.25F));
      ExpectLossless(codec, Multiples(count, 30000, 0x1p-60F));
      ExpectLossless(codec, Multiples(count, 127, 0x1p121F));
      std::vector<float> values(count);
      for (float& value : values) {
        value = std::bit_cast<float>(static_cast<uint32_t>(random()));
      }
      ExpectLossless(codec, values);
      // Few of them.
      for (float& value : values) {
        value = random() % 10 == 0 ? value : 0.0F;
      }
      ExpectLossless(codec, values);
      for (const float odd : {-0.0F, std::nanf("3"), std::numeric_limits<float>::infinity(),
                              std::numeric_limits<float>::max(), 1e-40F, 0x1p-126F}) {
        std::vector<float> with = Multiples(count, 127, 1.0F);
        if (count > 0) {
          with[count / 2] = odd;
        }
        ExpectLossless(codec, with);
      }
    }
  }
}

TEST(PackingTest, BrokenBytesAreRefused) {
  std::mt19937 random(2);
  std::vector<float> sparse(600);
  sparse[599] = 2;
  for (const Codec codec : kPackedCodecs) {
    const std::vector<std::byte> packed =
        Packed(codec, codec == Codec::kTopK ? sparse : Multiples(600, 100, 1.0F));
    std::vector<float> values(600);
    for (size_t bytes = 0; bytes < packed.size(); ++bytes) {
      EXPECT_EQ(Unpack(std::span(packed).first(bytes), 600, values.data()).code(),
                StatusCode::kDataLoss);
    }
    EXPECT_EQ(Unpack(packed, 599, values.data()).code(), StatusCode::kDataLoss);
    std::vector<std::byte> more = packed;
    more.push_back(std::byte{0});
    EXPECT_EQ(Unpack(more, 600, values.data()).code(), StatusCode::kDataLoss);
    // Whatever is made of other bytes stays within the values.
    for (int i = 0; i < 2000; ++i) {
      std::vector<std::byte> broken = packed;
      broken[random() % broken.size()] = static_cast<std::byte>(random());
      broken[random() % std::min<size_t>(broken.size(), 4)] = static_cast<std::byte>(random());
      static_cast<void>(Unpack(broken, 600, values.data()));
    }
  }
}

}  // namespace
}  // namespace lockstep::collective::internal
