#include "lockstep/cluster/internal/document.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace lockstep::cluster::internal {
namespace {

const Document kEnv = {"X", false};

std::string Fault(std::string_view text) {
  const Result<Node> node = ParseJson(text, kEnv);
  return node.ok() ? "ok" : node.status().message();
}

TEST(DocumentTest, Values) {
  const Node root =
      ParseJson(" { \"a\" : [1, -2.5e+3, true, null, \"x\"],\n  \"b\":{} } \n", kEnv).value();
  EXPECT_EQ(root.kind, Node::Kind::kObject);
  const Node* a = root.Find("a");
  ASSERT_NE(a, nullptr);
  ASSERT_EQ(a->items.size(), 5U);
  EXPECT_EQ(a->items[0].text, "1");
  EXPECT_EQ(a->items[1].text, "-2.5e+3");
  EXPECT_EQ(a->items[2].kind, Node::Kind::kBool);
  EXPECT_EQ(a->items[3].kind, Node::Kind::kNull);
  EXPECT_EQ(a->items[4].text, "x");
  EXPECT_EQ(a->at.column, 10U);
  ASSERT_EQ(root.members.size(), 2U);
  EXPECT_EQ(root.members[1].at.line, 2U);
  EXPECT_EQ(root.members[1].at.column, 3U);
  EXPECT_EQ(root.members[1].at.offset, 42U);
  EXPECT_EQ(root.Find("c"), nullptr);
}

TEST(DocumentTest, Strings) {
  const auto value = [](std::string_view text) { return ParseJson(text, kEnv)->text; };
  EXPECT_EQ(value(R"("\"\\\/\b\f\n\r\t")"), "\"\\/\b\f\n\r\t");
  EXPECT_EQ(value(R"("\u0041\u20AC\ud83d\ude00")"), "A\xe2\x82\xac\xf0\x9f\x98\x80");
  EXPECT_EQ(value("\"\xe2\x82\xac\""), "\xe2\x82\xac");
  EXPECT_EQ(value(R"("\u0000")"), std::string(1, '\0'));
}

TEST(DocumentTest, FaultsAndTheirPlaces) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "X: line 1, column 1 (byte 0): expected a value, found the end of the text"},
      {"{'a': 1}",
       "X: line 1, column 2 (byte 1): expected a key in double quotes, found a single "
       "quote; JSON strings are in double quotes"},
      {"{\"a\": 'b'}",
       "X: line 1, column 7 (byte 6): expected a value, found a single quote; JSON "
       "strings are in double quotes"},
      {"{\n \"a\" 1}", "X: line 2, column 6 (byte 7): expected ':' after the key, found '1'"},
      {"{\"a\":1,}", "X: line 1, column 8 (byte 7): expected a key in double quotes, found '}'"},
      {"[1,]", "X: line 1, column 4 (byte 3): expected a value, found ']'"},
      {"[1 2]", "X: line 1, column 4 (byte 3): expected ',' or ']', found '2'"},
      {"{\"a\":1", "X: line 1, column 7 (byte 6): expected ',' or '}', found the end of the text"},
      {"{\"a\":True}", "X: line 1, column 6 (byte 5): expected a value, found 'True'"},
      {"{\"a\":None}", "X: line 1, column 6 (byte 5): expected a value, found 'None'"},
      {"NaN", "X: line 1, column 1 (byte 0): expected a value, found 'NaN'"},
      {"{} {}", "X: line 1, column 4 (byte 3): found '{' after the end of the JSON value"},
      {"\"abc", "X: line 1, column 1 (byte 0): a string without its closing quote"},
      {"\"a\nb\"", "X: line 1, column 3 (byte 2): the control character '\\n' in a string"},
      {"\"\\x\"", "X: line 1, column 2 (byte 1): an escape that JSON does not know"},
      {"\"\\u12\"", "X: line 1, column 2 (byte 1): an escape that JSON does not know"},
      {"\"\\u+123\"", "X: line 1, column 2 (byte 1): an escape that JSON does not know"},
      {"\"\\ud83d\"", "X: line 1, column 2 (byte 1): half of a surrogate pair"},
      {"\"\\ud83d\\u0041\"", "X: line 1, column 2 (byte 1): half of a surrogate pair"},
      {"\"\\ude00\"", "X: line 1, column 2 (byte 1): half of a surrogate pair"},
      {"\"\xff\"", "X: line 1, column 2 (byte 1): bytes that are not UTF-8"},
      {"01", "X: line 1, column 2 (byte 1): a number with leading zeros"},
      {"-", "X: line 1, column 2 (byte 1): expected a digit, found the end of the text"},
      {"1.", "X: line 1, column 3 (byte 2): expected a digit, found the end of the text"},
      {"1e", "X: line 1, column 3 (byte 2): expected a digit, found the end of the text"},
      {"+1", "X: line 1, column 1 (byte 0): expected a value, found '+'"},
      {"{\"a\":1, \"b\":2, \"a\":3}",
       "X: line 1, column 16 (byte 15): the key 'a' is repeated; it "
       "stands at line 1, column 2 already"},
      {"\xef\xbb\xbf{}",
       "X: line 1, column 1 (byte 0): a byte order mark; JSON begins without one"},
      {"// x\n{}", "X: line 1, column 1 (byte 0): expected a value, found '/'"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_EQ(Fault(text), expected) << text;
  }
  EXPECT_EQ(Fault(std::string_view("\0", 1)),
            "X: line 1, column 1 (byte 0): expected a value, found '\\x00'");
}

TEST(DocumentTest, RepeatedKeysAreFoundThroughEscapes) {
  EXPECT_NE(Fault(R"({"a":1,"\u0061":2})").find("repeated"), std::string::npos);
}

TEST(DocumentTest, DepthAndSizeAreBounded) {
  EXPECT_EQ(Fault(std::string(32, '[') + std::string(32, ']')), "ok");
  EXPECT_NE(Fault(std::string(100000, '[')).find("levels deep"), std::string::npos);
  EXPECT_NE(Fault(std::string(kMaxDocumentBytes + 1, ' ')).find("bytes are more"),
            std::string::npos);
}

TEST(DocumentTest, FaultsOfFilesAndWholeNumbers) {
  EXPECT_EQ(ParseJson("{", {"c.json", true}).status().message(),
            "c.json:1:2: expected a key in double quotes, found the end of the text");
  int64_t value = -1;
  EXPECT_TRUE(WholeNumber("65535", 65535, value));
  EXPECT_EQ(value, 65535);
  EXPECT_TRUE(WholeNumber("0", 0, value));
  for (const char* text :
       {"", "-1", "+1", "1.0", "1e2", "01", "65536", "99999999999999999999999", " 1"}) {
    EXPECT_FALSE(WholeNumber(text, 65535, value)) << text;
  }
}

}  // namespace
}  // namespace lockstep::cluster::internal
