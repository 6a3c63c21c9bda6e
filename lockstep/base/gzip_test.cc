#include "lockstep/base/gzip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/testing/gzip_writer.h"

namespace lockstep {
namespace {

using testing::Compress;
using ::testing::HasSubstr;

TEST(GzipTest, Decompresses) {
  for (const size_t size : {0U, 1U, 65536U, 65537U, 1000000U}) {
    std::string content(size, '\0');
    for (size_t i = 0; i < size; ++i) {
      content[i] = static_cast<char>((i * i) >> 7);
    }
    EXPECT_TRUE(Gunzip(Compress(content), size).value() == content) << size;
  }
}

TEST(GzipTest, JoinsMembers) {
  EXPECT_EQ(Gunzip(Compress("one, ") + Compress("") + Compress("two"), 8).value(), "one, two");
}

// A member made by hand from RFC 1952 and 1951: a stored block with "hi".
TEST(GzipTest, ReadsAHandMadeMember) {
  const std::string member(
      "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
      "\x01\x02\x00\xfd\xff"
      "hi"
      "\xac\x2a\x93\xd8"
      "\x02\x00\x00\x00",
      25);
  EXPECT_EQ(Gunzip(member, 2).value(), "hi");
}

TEST(GzipTest, TheLimitIsExact) {
  const std::string bomb = Compress(std::string(1000000, 'x'));
  EXPECT_TRUE(Gunzip(bomb, 1000000).ok());
  EXPECT_EQ(Gunzip(bomb, 999999).status().ToString(),
            "OUT_OF_RANGE: gzip: decompresses to more than the limit of 999999 bytes");
  EXPECT_EQ(Gunzip(Compress("a"), 0).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(Gunzip(Compress(""), 0).value(), "");
}

TEST(GzipTest, ABeginningNeedsNoEnd) {
  const std::string packed = Compress(std::string(1000, 'a') + std::string(100'000, 'b'));
  EXPECT_EQ(GunzipBeginning(packed, 1001).value(), std::string(1000, 'a') + "b");
  EXPECT_EQ(GunzipBeginning(Compress("short"), 100).value(), "short");
  EXPECT_EQ(GunzipBeginning(Compress(""), 100).value(), "");
  // Cut off inside the content and inside gzip's own header.
  const std::string random = "what a dull text this is, is this";
  const std::string begun = GunzipBeginning(Compress(random).substr(0, 20), 100).value();
  EXPECT_EQ(begun, random.substr(0, begun.size()));
  EXPECT_EQ(GunzipBeginning(packed.substr(0, 5), 100).value(), "");
  EXPECT_EQ(GunzipBeginning("text", 100).status().ToString(),
            "DATA_LOSS: gzip: no gzip header at offset 0");
  std::string damaged = packed;
  damaged[2] = 9;  // A method that does not exist.
  EXPECT_EQ(GunzipBeginning(damaged, 100).status().code(), StatusCode::kDataLoss);
}

TEST(GzipTest, EveryTruncationIsAnError) {
  const std::string whole = Compress("some text that is worth keeping, keeping, keeping");
  for (size_t size = 0; size < whole.size(); ++size) {
    const Result<std::string> result = Gunzip(whole.substr(0, size), 1000);
    ASSERT_EQ(result.status().code(), StatusCode::kDataLoss) << size;
    EXPECT_THAT(result.status().message(), HasSubstr(size < 2 ? "no gzip header" : "truncated"));
  }
}

TEST(GzipTest, EveryFlippedBitOfTheContentOrTrailerIsAnError) {
  constexpr size_t kHeaderBytes = 10;
  const std::string whole = Compress("some text that is worth keeping, keeping, keeping");
  for (size_t bit = kHeaderBytes * 8; bit < whole.size() * 8; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    const Result<std::string> result = Gunzip(damaged, 1000);
    // The bits behind the last symbol of a block are padding and may change.
    EXPECT_TRUE(!result.ok() || *result == "some text that is worth keeping, keeping, keeping");
    if (bit >= (whole.size() - 8) * 8) {
      EXPECT_EQ(result.status().code(), StatusCode::kDataLoss) << bit;
    }
  }
}

TEST(GzipTest, ErrorsNameTheOffset) {
  const std::string whole = Compress("abc");
  EXPECT_EQ(
      Gunzip(whole + "xyz", 100).status().ToString(),
      "DATA_LOSS: gzip: bytes that belong to no member at offset " + std::to_string(whole.size()));
  EXPECT_EQ(Gunzip("not gzip", 100).status().message(), "gzip: no gzip header at offset 0");
  const Status second = Gunzip(whole + whole.substr(0, 12), 100).status();
  EXPECT_EQ(second.message(), "gzip: truncated at offset " + std::to_string(whole.size() + 12));
  ASSERT_EQ(second.context().size(), 1U);
  EXPECT_EQ(second.context()[0], "member at offset " + std::to_string(whole.size()));
}

}  // namespace
}  // namespace lockstep
