#include "lockstep/base/quote.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using std::literals::string_view_literals::operator""sv;

TEST(QuoteTest, ControlCharactersAreEscaped) {
  EXPECT_EQ(EscapeControls("a\n\t\x1b[31m\x7f\0b\xc3\xa9\\'"sv),
            "a\\n\\t\\x1b[31m\\x7f\\x00b\xc3\xa9\\'");
  EXPECT_TRUE(HasControlCharacters("a\0"sv));
  EXPECT_TRUE(HasControlCharacters("\x1f"));
  EXPECT_TRUE(HasControlCharacters("\x7f"));
  EXPECT_FALSE(HasControlCharacters(" ~\x80\xff"));
  EXPECT_FALSE(HasControlCharacters(""));
}

TEST(QuoteTest, BytesThatAreNoUtf8AndHighControlsAreEscaped) {
  EXPECT_EQ(EscapeControls("\xff\xfe"), "\\xff\\xfe");
  // A character that is cut off, one written too long, half of a surrogate pair, one too high.
  EXPECT_EQ(EscapeControls("a\xe2\x82"), "a\\xe2\\x82");
  EXPECT_EQ(EscapeControls("\xc0\xaf"), "\\xc0\\xaf");
  EXPECT_EQ(EscapeControls("\xe0\x80\xaf"), "\\xe0\\x80\\xaf");
  EXPECT_EQ(EscapeControls("\xed\xa0\x80"), "\\xed\\xa0\\x80");
  EXPECT_EQ(EscapeControls("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  // U+009B begins a command of a terminal; U+00A0, the euro and a face do not.
  EXPECT_EQ(EscapeControls("\xc2\x9b"), "\\xc2\\x9b");
  EXPECT_EQ(EscapeControls("\xc2\xa0\xe2\x82\xac\xf0\x9f\x98\x80"),
            "\xc2\xa0\xe2\x82\xac\xf0\x9f\x98\x80");
  const std::string once = EscapeControls("\x1b\xff\xc2\x9b\\");
  EXPECT_EQ(EscapeControls(once), once);
}

TEST(QuoteTest, WhatIsHiddenInTextIsEscaped) {
  // U+202E turns the direction of writing around; then a byte order mark, a zero width space, a
  // line separator, a soft hyphen, a tag.
  EXPECT_EQ(EscapeControls("a\xe2\x80\xae."), "a\\xe2\\x80\\xae.");
  EXPECT_EQ(EscapeControls("\xef\xbb\xbf"), "\\xef\\xbb\\xbf");
  EXPECT_EQ(EscapeControls("\xe2\x80\x8b\xe2\x80\xa8"), "\\xe2\\x80\\x8b\\xe2\\x80\\xa8");
  EXPECT_EQ(EscapeControls("\xc2\xad"), "\\xc2\\xad");
  EXPECT_EQ(EscapeControls("\xf3\xa0\x80\x81"), "\\xf3\\xa0\\x80\\x81");
  // Their neighbours: a hyphen, a dash, a quotation mark, a letter of 4 bytes.
  const std::string shown = "\xe2\x80\x90\xe2\x80\x94\xe2\x80\xa7\xf3\xa0\x84\x80\xc2\xae";
  EXPECT_EQ(EscapeControls(shown), shown);
}

TEST(QuoteTest, ShownTextKeepsItsEnds) {
  EXPECT_EQ(Shown(""), "");
  EXPECT_EQ(Shown("a\nb"), "a\\nb");
  EXPECT_EQ(Shown("abcdef", 6), "abcdef");
  EXPECT_EQ(Shown("abcdefghij", 6), "abcd...ij (10 bytes)");
  // No character is cut in two.
  EXPECT_EQ(Shown("abc\xc3\xa9xxxx\xc3\xa9z", 6), "abc...z (12 bytes)");
  EXPECT_LT(Shown(std::string(100'000, 'x')).size(), 600U);
}

TEST(QuoteTest, LongTextIsCut) {
  EXPECT_EQ(Quoted(""), "''");
  EXPECT_EQ(Quoted("abc", 3), "'abc'");
  EXPECT_EQ(Quoted("ab\ncd", 3), "'ab\\n...' (5 bytes)");
  EXPECT_EQ(Quoted("ab\xc3\xa9", 3), "'ab...' (4 bytes)");
}

}  // namespace
}  // namespace lockstep
