#include "lockstep/base/status.h"

#include <gtest/gtest.h>

#include "lockstep/base/result.h"

namespace lockstep {
namespace {

Result<int> Half(int x) {
  if (x % 2 != 0) {
    return InvalidArgument("odd");
  }
  return x / 2;
}

Result<int> Quarter(int x) {
  LS_ASSIGN_OR_RETURN(const int half, Half(x));
  return Half(half);
}

TEST(StatusTest, OkCarriesNothing) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.code(), StatusCode::kOk);
  EXPECT_EQ(status.ToString(), "OK");
  EXPECT_TRUE(status.With("frame").ok());
}

TEST(StatusTest, ContextIsAppendedAndLeavesTheOriginalAlone) {
  const Status inner = NotFound("no such file: a.txt");
  const Status outer = inner.With("op Read").With("rank 3");
  EXPECT_EQ(outer.ToString(), "NOT_FOUND: no such file: a.txt [op Read; rank 3]");
  EXPECT_EQ(inner.ToString(), "NOT_FOUND: no such file: a.txt");
}

TEST(StatusTest, OkCodeWithAMessageIsOk) {
  EXPECT_TRUE(Status(StatusCode::kOk, "ignored").ok());
}

TEST(StatusTest, EveryCodeHasItsCanonicalName) {
  EXPECT_EQ(StatusCodeName(StatusCode::kUnauthenticated), "UNAUTHENTICATED");
  EXPECT_EQ(StatusCodeName(StatusCode::kDataLoss), "DATA_LOSS");
  EXPECT_EQ(StatusCodeName(static_cast<StatusCode>(99)), "UNKNOWN");
}

TEST(ResultTest, PropagatesValueAndError) {
  ASSERT_TRUE(Quarter(12).ok());
  EXPECT_EQ(*Quarter(12), 3);
  EXPECT_EQ(Quarter(6).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Quarter(7).status().message(), "odd");
}

}  // namespace
}  // namespace lockstep
