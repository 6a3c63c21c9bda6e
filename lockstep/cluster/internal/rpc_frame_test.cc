#include "lockstep/cluster/internal/rpc_frame.h"

#include <gtest/gtest.h>

#include "lockstep/base/hmac.h"

namespace lockstep::cluster::internal {
namespace {

constexpr std::string_view kMethod = "/a/B";
constexpr std::string_view kKey = "key";

std::string Message(const RpcFrame& frame, std::string_view payload) {
  return FrameHeader(frame, kMethod, payload, kKey).value() + std::string(payload);
}

TEST(RpcFrameTest, RoundTrip) {
  const RpcFrame frame{.last = false, .reply = true, .session = 7, .call = 1ULL << 40, .chunk = 3};
  const std::string message = Message(frame, "payload");
  ASSERT_EQ(message.size(), kFrameHeaderBytes + 7);
  const auto parsed = ParseFrame(message);
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_FALSE(parsed->frame.last);
  EXPECT_TRUE(parsed->frame.reply);
  EXPECT_EQ(parsed->frame.session, 7U);
  EXPECT_EQ(parsed->frame.call, 1ULL << 40);
  EXPECT_EQ(parsed->frame.chunk, 3U);
  EXPECT_EQ(parsed->payload, "payload");
  EXPECT_TRUE(CheckFrame(*parsed, kMethod, kKey).ok());
}

// Every bit of a frame is either checked by the parser or covered by the code.
TEST(RpcFrameTest, EveryFlippedBitIsFound) {
  const std::string message = Message({.session = 1, .call = 2}, "pay");
  for (size_t bit = 0; bit < message.size() * 8; ++bit) {
    std::string changed = message;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    const auto parsed = ParseFrame(changed);
    if (parsed.ok()) {
      EXPECT_EQ(CheckFrame(*parsed, kMethod, kKey).code(), StatusCode::kUnauthenticated) << bit;
    } else {
      EXPECT_EQ(parsed.status().code(), StatusCode::kInvalidArgument);
    }
  }
}

TEST(RpcFrameTest, MethodAndKeyAreCovered) {
  const std::string message = Message({}, "pay");
  const auto parsed = ParseFrame(message);
  ASSERT_TRUE(parsed.ok());
  EXPECT_FALSE(CheckFrame(*parsed, "/a/C", kKey).ok());
  EXPECT_FALSE(CheckFrame(*parsed, kMethod, "kex").ok());
}

// The code by itself, from the description in docs/protocol.md.
TEST(RpcFrameTest, CodeIsWhatTheProtocolSays) {
  const std::string message = Message({.session = 1, .call = 2}, "pay");
  const std::string_view text = message;
  EXPECT_EQ(text.substr(32, 32), BytesOf(*HmacSha256(kKey, {text.substr(0, 32), kMethod, "pay"})));
}

TEST(RpcFrameTest, NoFrames) {
  EXPECT_FALSE(ParseFrame("").ok());
  EXPECT_FALSE(ParseFrame(std::string(63, '\0')).ok());
  EXPECT_FALSE(ParseFrame(std::string(64, '\0')).ok());
  std::string cut = Message({}, "payload");
  cut.pop_back();
  EXPECT_FALSE(ParseFrame(cut).ok());
  EXPECT_FALSE(ParseFrame(Message({}, "payload") + "x").ok());
}

TEST(RpcFrameTest, KeysDependOnAllInputs) {
  const std::string job = JobKey("secret").value();
  EXPECT_NE(job, JobKey("secreu").value());
  EXPECT_NE(SessionKey(job, "a", "b").value(), SessionKey(job, "a", "c").value());
  EXPECT_NE(SessionKey(job, "a", "b").value(), SessionKey(job, "c", "b").value());
}

}  // namespace
}  // namespace lockstep::cluster::internal
