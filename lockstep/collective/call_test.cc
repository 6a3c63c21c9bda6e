#include "lockstep/collective/call.h"

#include <gtest/gtest.h>

namespace lockstep::collective {
namespace {

CallSpec Spec(int64_t elements) {
  return {.name = "x", .shape = Shape{elements}};
}

void ExpectRefused(const Call& call, const ReplicaMap& map, int self, const std::string& text) {
  const Status status = CheckCall(call, map, self);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << text;
  EXPECT_NE(status.message().find(text), std::string::npos) << status.ToString();
}

TEST(CallTest, DescribesWhatMembersMustAgreeOn) {
  float value = 0;
  Call call = ReduceCall(
      {.name = "a", .op = ReduceOp::kMax, .dtype = DType::kInt64, .shape = Shape{2, 3}, .root = 1},
      {&value}, &value);
  EXPECT_EQ(Describe(call), "reduce 'a' max int64 [2, 3] root 1");
  call.spec.algorithm = Algorithm::kPairwise;
  EXPECT_EQ(Describe(call), "reduce 'a' max int64 [2, 3] root 1 by pairwise");
  CallSpec spec = Spec(5);
  spec.counts = {2, 3};
  EXPECT_EQ(Describe(AllGatherCall(spec, nullptr, nullptr)),
            "all_gather 'x' float32 [5] counts 2,3");
  EXPECT_EQ(Describe(BarrierCall("end")), "barrier 'end'");
}

TEST(CallTest, AlgorithmsHaveNames) {
  for (const Algorithm algorithm :
       {Algorithm::kAuto, Algorithm::kGather, Algorithm::kPairwise, Algorithm::kShared}) {
    const Result<Algorithm> parsed = ParseAlgorithm(AlgorithmName(algorithm));
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(*parsed, algorithm);
  }
  const Status refused = ParseAlgorithm("ring").status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(refused.message().find("'ring': allowed are auto, gather"), std::string::npos);
}

TEST(CallTest, EvenPartsCoverAllElementsWithoutOverflow) {
  for (const int64_t n : {int64_t{0}, int64_t{1}, int64_t{7}, int64_t{4096}, int64_t{1} << 61}) {
    for (int parts = 1; parts <= 9; ++parts) {
      int64_t next = 0;
      for (int i = 0; i < parts; ++i) {
        const Part part = EvenPart(n, parts, i);
        EXPECT_EQ(part.begin, next);
        EXPECT_TRUE(part.count == n / parts || part.count == n / parts + 1);
        next += part.count;
      }
      EXPECT_EQ(next, n);
    }
  }
}

TEST(CallTest, AnAllToAllTransposesItsCounts) {
  Call call = AllToAllCall(Spec(0), nullptr, nullptr);
  call.spec.counts = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  const Exchanged moved = ExchangedBy(call, 3, 1, 2);
  EXPECT_EQ(moved.sent.begin, 9);
  EXPECT_EQ(moved.sent.count, 6);
  EXPECT_EQ(moved.received.begin, 3);
  EXPECT_EQ(moved.received.count, 6);
}

TEST(CallTest, WhatDoesNotFitIsRefused) {
  const ReplicaMap map(3, 2);
  float value = 0;
  EXPECT_TRUE(CheckCall(AllReduceCall(Spec(1), {&value}, &value), map, 0).ok());
  EXPECT_TRUE(CheckCall(AllReduceCall(Spec(0), {nullptr}, nullptr), map, 0).ok());
  ExpectRefused(AllReduceCall(Spec(1), {}, &value), map, 0, "0 inputs");
  ExpectRefused(AllReduceCall(Spec(1), {nullptr}, &value), map, 0, "input without a buffer");
  ExpectRefused(AllReduceCall(Spec(1), {&value}, nullptr), map, 0, "no buffer for the output");
  CallSpec spec = Spec(1);
  spec.dtype = DType::kUInt8;
  ExpectRefused(AllReduceCall(spec, {&value}, &value), map, 0, "uint8 cannot be reduced");
  spec = Spec(1);
  spec.root = 2;
  ExpectRefused(BroadcastCall(spec, &value), map, 0, "there is no member 2");
  spec = Spec(5);
  spec.counts = {2, 2};
  ExpectRefused(AllGatherCall(spec, &value, &value), map, 0, "counts of 4 elements");
  spec.counts = {6, -1};
  ExpectRefused(AllGatherCall(spec, &value, &value), map, 0, "a count of -1");
  spec.counts = {5};
  ExpectRefused(ScatterCall(spec, &value, &value), map, 0, "1 counts: 2 are needed");
  ExpectRefused(AllToAllCall(Spec(5), &value, &value), map, 0, "cannot be dealt out evenly");
  spec.counts = {2, 3};
  ExpectRefused(BroadcastCall(spec, &value), map, 0, "has no counts");
}

TEST(CallTest, OnlyWhoNeedsABufferMustHaveOne) {
  const ReplicaMap map(2, 2);
  float value = 0;
  EXPECT_TRUE(CheckCall(ReduceCall(Spec(1), {&value}, nullptr), map, 1).ok());
  EXPECT_TRUE(CheckCall(ScatterCall(Spec(2), nullptr, &value), map, 1).ok());
  EXPECT_TRUE(CheckCall(GatherCall(Spec(2), &value, nullptr), map, 1).ok());
  ExpectRefused(GatherCall(Spec(2), &value, nullptr), map, 0, "no buffer for the output");
}

}  // namespace
}  // namespace lockstep::collective
