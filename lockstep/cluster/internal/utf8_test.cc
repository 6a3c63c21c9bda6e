#include "lockstep/cluster/internal/utf8.h"

#include <gtest/gtest.h>

namespace lockstep::cluster::internal {
namespace {

TEST(Utf8Test, EveryCharacterThereIs) {
  for (uint32_t code = 0; code <= 0x10FFFF; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) {
      continue;
    }
    std::string text;
    AppendUtf8(code, text);
    const size_t expected = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    ASSERT_EQ(text.size(), expected) << code;
    ASSERT_EQ(Utf8Length(text), expected) << code;
    ASSERT_EQ(Utf8Length(text + "x"), expected) << code;
    ASSERT_EQ(Utf8Length(text.substr(0, expected - 1)), 0U) << code;
  }
}

TEST(Utf8Test, KnownCharacters) {
  std::string text;
  AppendUtf8(0x20AC, text);
  EXPECT_EQ(text, "\xe2\x82\xac");
  text.clear();
  AppendUtf8(0x1F600, text);
  EXPECT_EQ(text, "\xf0\x9f\x98\x80");
}

TEST(Utf8Test, Malformed) {
  for (const char* text : {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xed\xa0\x80",
                           "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "\xff",
                           "\xc3", "\xc3(", "\xe2\x82", "\xe2(\xac"}) {
    EXPECT_EQ(Utf8Length(text), 0U) << ::testing::PrintToString(std::string(text));
  }
  EXPECT_EQ(Utf8Length(""), 0U);
}

}  // namespace
}  // namespace lockstep::cluster::internal
