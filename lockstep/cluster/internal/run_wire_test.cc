#include "lockstep/cluster/internal/run_wire.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace lockstep::cluster::internal {
namespace {

using std::chrono::seconds;

WorkerRun Sample(const Deadline& deadline) {
  return {.scope = 0xABCDEF, .step = 7, .info = {11, 13, 0}, .deadline = deadline};
}

std::vector<Tensor> SmallAndLarge() {
  return {Tensor::Scalar<float>(2.5F).value(), Tensor::Zeros(DType::kFloat32, {3000}).value(),
          Tensor::Zeros(DType::kInt32, {0, 5}).value(),
          Tensor::From<int32_t>({2}, {-1, 4}).value()};
}

TEST(RunWireTest, RequestsComeBack) {
  Separate separate;
  const auto bytes =
      EncodeRunRequest(99, Sample(Deadline::After(seconds(20))), SmallAndLarge(), separate);
  ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
  EXPECT_EQ(separate, Separate{1});
  const auto request = ParseRunRequest(*bytes);
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  EXPECT_EQ(request->run, 99U);
  EXPECT_EQ(request->what.scope, 0xABCDEFU);
  EXPECT_EQ(request->what.step, 7U);
  EXPECT_EQ(request->what.info.seed, 11U);
  EXPECT_EQ(request->what.info.step, 13);
  EXPECT_GT(request->what.deadline.remaining(), seconds(19));
  EXPECT_LE(request->what.deadline.remaining(), seconds(20));
  EXPECT_EQ(request->separate, Separate{1});
  ASSERT_EQ(request->feeds.size(), 4U);
  EXPECT_EQ(request->feeds[0].ToDoubles(), std::vector<double>{2.5});
  EXPECT_FALSE(request->feeds[1].has_value());
  EXPECT_EQ(request->feeds[2].shape(), (Shape{0, 5}));
  EXPECT_EQ(request->feeds[3].ToDoubles(), (std::vector<double>{-1, 4}));
}

TEST(RunWireTest, WithoutADeadline) {
  Separate separate;
  const auto bytes = EncodeRunRequest(1, Sample(Deadline::Infinite()), {}, separate);
  EXPECT_TRUE(ParseRunRequest(*bytes)->what.deadline.infinite());
}

TEST(RunWireTest, RepliesComeBack) {
  Separate separate;
  const auto bytes = EncodeRunReply(SmallAndLarge(), separate);
  const auto reply = ParseRunReply(*bytes);
  ASSERT_TRUE(reply.ok()) << reply.status().ToString();
  EXPECT_TRUE(reply->status.ok());
  EXPECT_EQ(reply->separate, separate);
  EXPECT_EQ(reply->fetches[3].ToDoubles(), (std::vector<double>{-1, 4}));
  const Status why = NotFound("no 'x'").With("op y").With("/job:worker/task:1");
  const auto failed = ParseRunReply(*EncodeRunReply(why, separate));
  ASSERT_TRUE(failed.ok());
  EXPECT_EQ(failed->status.code(), StatusCode::kNotFound);
  EXPECT_EQ(failed->status.ToString(), why.ToString());
}

TEST(RunWireTest, ATensorThatHoldsNothingIsRefused) {
  Separate separate;
  const Tensor nothing;
  EXPECT_EQ(EncodeRunReply(std::vector<Tensor>{nothing}, separate).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(RunWireTest, CutAndPaddedMessagesAreRefused) {
  Separate separate;
  const std::string request =
      EncodeRunRequest(99, Sample(Deadline::Infinite()), SmallAndLarge(), separate).value();
  for (size_t size = 0; size < request.size(); ++size) {
    EXPECT_FALSE(ParseRunRequest(request.substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(ParseRunRequest(request + "x").ok());
  const std::string reply = EncodeRunReply(SmallAndLarge(), separate).value();
  for (size_t size = 0; size < reply.size(); ++size) {
    EXPECT_FALSE(ParseRunReply(reply.substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(ParseRunReply(reply + "x").ok());
}

TEST(RunWireTest, SizesAreCheckedBeforeMemoryIsTaken) {
  Separate separate;
  const Tensor one = Tensor::Zeros(DType::kFloat32, {1}).value();
  std::string bytes = EncodeRunReply(std::vector<Tensor>{one}, separate).value();
  // Behind the status (8), the count (4) and the tensor's word (4) is its only dimension.
  bytes[8 + 4 + 4 + 5] = 1;
  const Status status = ParseRunReply(bytes).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("inside a message"), std::string::npos) << status.ToString();
  // As many tensors as 32 bits can say.
  std::string many(8 + 4, '\0');
  many.replace(8, 4, 4, '\xFF');
  EXPECT_EQ(ParseRunReply(many).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::cluster::internal
