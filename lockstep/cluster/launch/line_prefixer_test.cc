#include "lockstep/cluster/launch/line_prefixer.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep::cluster {
namespace {

std::vector<std::string> Lines(const std::vector<std::string>& pieces,
                               size_t max_line = LinePrefixer::kMaxLine) {
  std::vector<std::string> lines;
  LinePrefixer prefixer(
      "[p] ", [&](std::string line) { lines.push_back(std::move(line)); }, max_line);
  for (const std::string& piece : pieces) {
    prefixer.Feed(piece);
  }
  prefixer.Finish();
  return lines;
}

using Expected = std::vector<std::string>;

TEST(LinePrefixerTest, PiecesBecomeLines) {
  EXPECT_EQ(Lines({"a\nb\n"}), (Expected{"[p] a\n", "[p] b\n"}));
  EXPECT_EQ(Lines({"a", "b", "\n", "c\nd", "e\n"}), (Expected{"[p] ab\n", "[p] c\n", "[p] de\n"}));
  EXPECT_EQ(Lines({"\n\n"}), (Expected{"[p] \n", "[p] \n"}));
  EXPECT_EQ(Lines({}), Expected());
  EXPECT_EQ(Lines({"a\r\n", "b\rc"}), (Expected{"[p] a\r\n", "[p] b\rc\n"}));
  EXPECT_EQ(Lines({std::string("\0x\n", 3)}), (Expected{std::string("[p] \0x\n", 7)}));
}

TEST(LinePrefixerTest, TheLastLineMayLackItsEnd) {
  EXPECT_EQ(Lines({"a\nb"}), (Expected{"[p] a\n", "[p] b\n"}));
  EXPECT_EQ(Lines({"a\n"}), (Expected{"[p] a\n"}));
}

TEST(LinePrefixerTest, LongLinesStayWhole) {
  const std::string piece(1 << 20, 'x');
  const auto lines = Lines({piece, piece, piece, "\n"});
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0], "[p] " + piece + piece + piece + "\n");
}

TEST(LinePrefixerTest, EndlessLinesAreBroken) {
  EXPECT_EQ(Lines({"abcdefg", "h\ni"}, 3),
            (Expected{"[p] abc\n", "[p] def\n", "[p] gh\n", "[p] i\n"}));
  EXPECT_EQ(Lines({"abc\n"}, 3), (Expected{"[p] abc\n"}));
}

}  // namespace
}  // namespace lockstep::cluster
