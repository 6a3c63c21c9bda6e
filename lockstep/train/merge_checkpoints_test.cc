#include "lockstep/train/merge_checkpoints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace lockstep::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Checkpoint Model(const std::string& folder, std::vector<float> w, int64_t step = 1) {
  Checkpoint made;
  made.info.folder = folder;
  made.info.contents.step = step;
  made.info.contents.model_variables = {"w"};
  made.info.contents.slot_variables = {"w/momentum"};
  made.info.contents.program_fingerprint = R"({"model.name": "mlp"})";
  const auto n = static_cast<int64_t>(w.size());
  made.variables.push_back({"w", Tensor::From<float>(Shape{n}, w).value()});
  made.variables.push_back({"w/momentum", Tensor::From<float>(Shape{n}, w).value()});
  return made;
}

std::string ErrorOf(const std::vector<Checkpoint>& checkpoints,
                    const std::vector<double>& weights) {
  return MergeCheckpoints(checkpoints, weights).status().message();
}

TEST(MergeCheckpointsTest, IsTheWeightedAverageOfTheModel) {
  const std::vector<Checkpoint> models = {Model("a", {1, -2, 0.5}, 7), Model("b", {3, 2, 0.5}, 9),
                                          Model("c", {100, 100, 100}, 5)};
  const Checkpoint merged = MergeCheckpoints(models, std::vector<double>{10, 30, 0}).value();
  ASSERT_EQ(merged.variables.size(), 1U);
  EXPECT_EQ(merged.variables[0].name, "w");
  EXPECT_THAT(merged.variables[0].value.values<float>(), ElementsAre(2.5F, 1, 0.5F));
  EXPECT_EQ(merged.info.contents.step, 9);
  EXPECT_TRUE(merged.info.contents.slot_variables.empty());
}

// Three equal models: in float32, 1/3 three times would not give the model back.
TEST(MergeCheckpointsTest, EqualModelsStayAsTheyAre) {
  const std::vector<float> w = {0.1F, 1e-38F, 3e38F, -7.7F};
  const std::vector<Checkpoint> models(3, Model("a", w));
  const Checkpoint merged = MergeCheckpoints(models, std::vector<double>{1, 1, 1}).value();
  EXPECT_THAT(merged.variables[0].value.values<float>(), ::testing::ElementsAreArray(w));
}

TEST(MergeCheckpointsTest, NamesWhatDoesNotGoTogether) {
  const Checkpoint a = Model("a", {1, 2});
  Checkpoint other = Model("b", {1, 2});
  other.info.contents.program_fingerprint = R"({"model.name": "cnn"})";
  EXPECT_THAT(ErrorOf({a, other}, {1, 1}), HasSubstr("b is of another model than a: model.name"));
  EXPECT_THAT(ErrorOf({a, Model("b", {1, 2, 3})}, {1, 1}), HasSubstr("float32 [3]"));
  other = Model("b", {1, 2});
  other.variables[0].name = "v";
  EXPECT_THAT(ErrorOf({a, other}, {1, 1}), HasSubstr("'v'"));
  EXPECT_THAT(ErrorOf({a}, {1, 2}), HasSubstr("2 weights for 1 checkpoints"));
  EXPECT_THAT(ErrorOf({}, {}), HasSubstr("0 weights"));
  EXPECT_THAT(ErrorOf({a}, {-1}), HasSubstr("the weight -1"));
  EXPECT_THAT(ErrorOf({a}, {std::numeric_limits<double>::quiet_NaN()}), HasSubstr("nan"));
  EXPECT_THAT(ErrorOf({a, a}, {0, 0}), HasSubstr("add up to 0"));
}

}  // namespace
}  // namespace lockstep::train
