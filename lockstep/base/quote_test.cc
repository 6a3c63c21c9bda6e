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

TEST(QuoteTest, LongTextIsCut) {
  EXPECT_EQ(Quoted(""), "''");
  EXPECT_EQ(Quoted("abc", 3), "'abc'");
  EXPECT_EQ(Quoted("ab\ncd", 3), "'ab\\n...' (5 bytes)");
}

}  // namespace
}  // namespace lockstep
