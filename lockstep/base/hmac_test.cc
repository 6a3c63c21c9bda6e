#include "lockstep/base/hmac.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

namespace lockstep {
namespace {

std::string Hex(const Digest& digest) {
  return fmt::format("{:02x}", fmt::join(digest, ""));
}

// RFC 4231, test cases 1, 2, 4 and 6.
TEST(HmacTest, KnownAnswers) {
  EXPECT_EQ(Hex(*HmacSha256(std::string(20, '\x0b'), {"Hi There"})),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(Hex(*HmacSha256("Jefe", {"what do ya want for nothing?"})),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  std::string key;
  for (char c = 1; c <= 25; ++c) {
    key.push_back(c);
  }
  EXPECT_EQ(Hex(*HmacSha256(key, {std::string(50, '\xcd')})),
            "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
  EXPECT_EQ(Hex(*HmacSha256(std::string(131, '\xaa'),
                            {"Test Using Larger Than Block-Size Key - Hash Key First"})),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(HmacTest, PartsAreConcatenated) {
  EXPECT_EQ(*HmacSha256("Jefe", {"what do ya ", "", "want for nothing?"}),
            *HmacSha256("Jefe", {"what do ya want for nothing?"}));
}

TEST(HmacTest, AnEmptyKeyIsAKey) {
  EXPECT_EQ(Hex(*HmacSha256("", {""})),
            "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

TEST(HmacTest, Compares) {
  EXPECT_TRUE(ConstantTimeEqual("", ""));
  EXPECT_TRUE(ConstantTimeEqual("abc", std::string("abc")));
  EXPECT_FALSE(ConstantTimeEqual("abc", "abd"));
  EXPECT_FALSE(ConstantTimeEqual("abc", "ab"));
}

TEST(HmacTest, RandomValuesDiffer) {
  EXPECT_NE(*RandomNonZero(), *RandomNonZero());
  Digest digest{};
  ASSERT_TRUE(FillRandom(digest).ok());
  EXPECT_NE(digest, Digest{});
}

}  // namespace
}  // namespace lockstep
