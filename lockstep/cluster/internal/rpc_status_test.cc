#include "lockstep/cluster/internal/rpc_status.h"

#include <gtest/gtest.h>

namespace lockstep::cluster::internal {
namespace {

TEST(RpcStatusTest, EveryCodeSurvives) {
  for (int code = 1; code <= 16; ++code) {
    const Status status =
        Status(StatusCode(code), "message").With("op MatMul 'y'").With("/job:worker/task:1");
    const Status back = DecodeReply(EncodeReply(status)).status();
    EXPECT_EQ(back.code(), status.code());
    EXPECT_EQ(back.message(), "message");
    EXPECT_EQ(back.context(), status.context());
    EXPECT_EQ(DecodeStatus(EncodeStatus(status)).ToString(), status.ToString());
  }
}

TEST(RpcStatusTest, LongMessagesAreWhole) {
  const std::string message(200'000, 'm');
  EXPECT_EQ(DecodeReply(EncodeReply(Internal(message))).status().message(), message);
}

TEST(RpcStatusTest, Bodies) {
  const std::string body("a\0b", 3);
  EXPECT_EQ(DecodeReply(EncodeReply(body)).value(), body);
  EXPECT_EQ(DecodeReply(EncodeReply(std::string())).value(), "");
}

TEST(RpcStatusTest, HostileBytes) {
  const std::string good = EncodeReply(Internal("message").With("frame"));
  for (size_t size = 0; size < good.size(); ++size) {
    const Status status = DecodeReply(good.substr(0, size)).status();
    EXPECT_EQ(status.message(), "a reply without a readable status") << size;
  }
  EXPECT_EQ(DecodeStatus(good + "x").message(), "an unreadable status");
  std::string code = good;
  code[0] = 17;
  EXPECT_EQ(DecodeReply(code).status().message(), "a reply without a readable status");
}

}  // namespace
}  // namespace lockstep::cluster::internal
