#include "lockstep/data/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace lockstep::data {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;

Tensor Labels(std::initializer_list<int32_t> labels) {
  return Tensor::From<int32_t>(Shape{static_cast<int64_t>(labels.size())}, labels).value();
}

TEST(SplitTest, GathersFloats) {
  const Split split =
      Split::Create("s", Tensor::From<float>(Shape{3, 2}, {0, 1, 10, 11, 20, 21}).value(),
                    Labels({5, 6, 7}), 8)
          .value();
  EXPECT_EQ(split.size(), 3);
  EXPECT_EQ(split.sample_elements(), 2);
  std::array<float, 6> features{};
  std::array<int32_t, 3> labels{};
  const std::array<uint32_t, 3> indices = {2, 0, 2};
  split.Gather(indices, features.data(), labels.data());
  EXPECT_THAT(features, ElementsAre(20, 21, 0, 1, 20, 21));
  EXPECT_THAT(labels, ElementsAre(7, 5, 7));
}

TEST(SplitTest, GathersBytesAsFractions) {
  const Split split =
      Split::Create("s", Tensor::From<uint8_t>(Shape{2, 1, 2, 1}, {0, 255, 51, 102}).value(),
                    Labels({0, 1}), 2)
          .value();
  std::array<float, 4> features{};
  std::array<int32_t, 2> labels{};
  const std::array<uint32_t, 2> indices = {1, 0};
  split.Gather(indices, features.data(), labels.data());
  EXPECT_THAT(features, ElementsAre(FloatEq(0.2F), FloatEq(0.4F), 0, 1));
}

TEST(SplitTest, RefusesWhatDoesNotFit) {
  const Tensor features = Tensor::Zeros(DType::kFloat32, Shape{2, 3}).value();
  const auto message = [](Tensor x, Tensor y) {
    return Split::Create("s", std::move(x), std::move(y), 3).status().message();
  };
  EXPECT_EQ(message(features, Labels({0, 3})), "s: sample 1 has label 3, allowed are 0 to 2");
  EXPECT_EQ(message(features, Labels({-1, 0})), "s: sample 0 has label -1, allowed are 0 to 2");
  EXPECT_EQ(message(features, Labels({0})),
            "s: features [2, 3] do not fit labels [1], expected [N, ...] and [N]");
  EXPECT_EQ(message(Tensor::Zeros(DType::kFloat64, Shape{2, 3}).value(), Labels({0, 0})),
            "s: features of type float64, allowed are uint8 and float32");
  EXPECT_EQ(message(features, Tensor::Zeros(DType::kInt64, Shape{2}).value()),
            "s: labels are int64 [2], expected int32 [N]");
}

TEST(SplitTest, TheHashIsThatOfTheContent) {
  const auto hash = [](const Shape& shape, const std::vector<uint8_t>& pixels,
                       std::initializer_list<int32_t> labels) {
    return ContentSha256(
               Split::Create("s", Tensor::From<uint8_t>(shape, pixels).value(), Labels(labels), 9)
                   .value())
        .value();
  };
  const std::string one = hash(Shape{2, 2}, {1, 2, 3, 4}, {5, 6});
  // printf 'uint8 [2, 2]\x1\x2\x3\x4int32 [2]\x5\0\0\0\x6\0\0\0' | sha256sum
  EXPECT_EQ(one, "36a172e4cd298b52a5e6743aef3af4bbbbe961e67a88c2e950db905d4b016a00");
  EXPECT_EQ(hash(Shape{2, 2}, {1, 2, 3, 4}, {5, 6}), one);
  EXPECT_NE(hash(Shape{2, 2}, {1, 2, 3, 5}, {5, 6}), one);
  EXPECT_NE(hash(Shape{2, 2}, {1, 2, 3, 4}, {6, 5}), one);
  EXPECT_NE(hash(Shape{2, 2, 1}, {1, 2, 3, 4}, {5, 6}), one);
  EXPECT_TRUE(ContentSha256(Split()).ok());
}

}  // namespace
}  // namespace lockstep::data
