#include "lockstep/model/zoo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "lockstep/op/catalog.h"
#include "lockstep/op/placeholder.h"

namespace lockstep::model {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Network {
  std::unique_ptr<Graph> graph;
  Value features;
  Value logits;
};

Network Build(std::string_view name, const Shape& sample, bool training,
              const ModelOptions& options = {}) {
  Network network;
  network.graph = std::make_unique<Graph>(op::Catalog());
  Builder b(*network.graph);
  Shape shape{Shape::kUnknownDim};
  for (const int64_t dim : sample.dims()) {
    shape.Append(dim);
  }
  network.features = op::Placeholder(b, DType::kFloat32, shape, "features");
  const Result<ModelFn> model = MakeModel(name, options);
  EXPECT_TRUE(model.ok()) << model.status().ToString();
  network.logits = (*model)({.builder = b, .training = training}, network.features);
  EXPECT_TRUE(b.status().ok()) << name << ": " << b.status().ToString();
  return network;
}

std::vector<std::string> Names(const Network& network, std::string_view collection) {
  std::vector<std::string> names;
  for (const Value& variable : network.graph->Collection(collection)) {
    names.push_back(variable.node->name);
  }
  return names;
}

int64_t Parameters(const Network& network) {
  int64_t count = 0;
  for (const Value& variable : network.graph->Collection(collection::kTrainableVariables)) {
    count += variable.shape().num_elements();
  }
  return count;
}

int64_t ParametersOf(std::string_view name, const Shape& sample, int64_t classes) {
  ModelOptions options;
  options.num_classes = classes;
  return Parameters(Build(name, sample, true, options));
}

// As torchvision's documentation of its models gives them, for 1000 classes.
TEST(ZooTest, ResNetsHaveTheirPublishedSizes) {
  EXPECT_EQ(ParametersOf("resnet18", Shape{224, 224, 3}, 1000), 11689512);
  EXPECT_EQ(ParametersOf("resnet34", Shape{224, 224, 3}, 1000), 21797672);
  EXPECT_EQ(ParametersOf("resnet50", Shape{224, 224, 3}, 1000), 25557032);
}

// With scale and offset of each normalisation, 2 C, and projections where the shape changes.
TEST(ZooTest, CifarResNetsCountedByHand) {
  const int64_t stem = 27 * 16 + 32;
  const auto conv = [](int64_t in, int64_t out) { return 9 * in * out + 2 * out; };
  const auto stage = [&](int64_t in, int64_t out, int64_t blocks) {
    const int64_t projection = in == out ? 0 : in * out + 2 * out;
    return conv(in, out) + conv(out, out) + projection + (blocks - 1) * 2 * conv(out, out);
  };
  const int64_t head = 64 * 10 + 10;
  const auto network = [&](int64_t blocks) {
    return stem + stage(16, 16, blocks) + stage(16, 32, blocks) + stage(32, 64, blocks) + head;
  };
  ASSERT_EQ(network(3), 272474);
  EXPECT_EQ(ParametersOf("resnet20", Shape{32, 32, 3}, 10), network(3));
  EXPECT_EQ(ParametersOf("resnet32", Shape{32, 32, 3}, 10), network(5));
}

TEST(ZooTest, SmallModelsCountedByHand) {
  const Shape digits{28, 28, 1};
  EXPECT_EQ(ParametersOf("softmax_regression", digits, 10), 784 * 10 + 10);
  EXPECT_EQ(ParametersOf("mlp", digits, 10), 784 * 128 + 128 + 128 * 10 + 10);
  EXPECT_EQ(ParametersOf("mnist_cnn", digits, 10),
            (9 * 32 + 32) + (9 * 32 * 64 + 64) + (7 * 7 * 64 * 128 + 128) + (128 * 10 + 10));
  EXPECT_EQ(ParametersOf("lenet5", digits, 10), (25 * 6 + 6) + (25 * 6 * 16 + 16) +
                                                    (5 * 5 * 16 * 120 + 120) + (120 * 84 + 84) +
                                                    (84 * 10 + 10));
}

TEST(ZooTest, TheHiddenLayersOfAnMlpAreOptions) {
  ModelOptions options;
  options.num_classes = 3;
  options.hidden = {7, 5};
  const Network network = Build("mlp", Shape{4}, true, options);
  EXPECT_EQ(Parameters(network), (4 * 7 + 7) + (7 * 5 + 5) + (5 * 3 + 3));
  EXPECT_THAT(Names(network, collection::kTrainableVariables),
              ElementsAre("dense1/kernel", "dense1/bias", "dense2/kernel", "dense2/bias",
                          "logits/kernel", "logits/bias"));
  options.hidden = {};
  EXPECT_EQ(Parameters(Build("mlp", Shape{4}, true, options)), 4 * 3 + 3);
}

// Small enough to run here, large enough for every pooling and stride to have something to do.
Shape SmallSample(const ModelInfo& info) {
  return info.input_shape[0] == 224 ? Shape{33, 40, 3}
                                    : Shape(std::span<const int64_t>(info.input_shape));
}

// Dropout opens a scope in training only, which must not change any other name.
TEST(ZooTest, TrainingAndEvaluationHaveTheSameVariables) {
  ModelOptions options;
  options.dropout = 0.5;
  for (const ModelInfo& info : Models()) {
    const Network training = Build(info.name, SmallSample(info), true, options);
    const Network evaluation = Build(info.name, SmallSample(info), false, options);
    EXPECT_EQ(Names(training, collection::kVariables), Names(evaluation, collection::kVariables))
        << info.name;
    EXPECT_FALSE(Names(training, collection::kVariables).empty()) << info.name;
    EXPECT_TRUE(evaluation.graph->Collection(collection::kUpdateOps).empty()) << info.name;
  }
}

// Each normalisation has two running statistics, and each moves in training.
TEST(ZooTest, RunningStatisticsAreVariablesButNotTrained) {
  const Network network = Build("resnet20", Shape{32, 32, 3}, true);
  const auto all = network.graph->Collection(collection::kVariables).size();
  const auto trained = network.graph->Collection(collection::kTrainableVariables).size();
  // 1 + 3 * 3 * 2 convolutions and 2 projections are normalised.
  EXPECT_EQ(all - trained, 2U * 21U);
  EXPECT_EQ(network.graph->Collection(collection::kUpdateOps).size(), 2U * 21U);
  EXPECT_THAT(Names(network, collection::kVariables),
              Contains("stage2_block1/shortcut/norm/moving_variance"));
}

TEST(ZooTest, ModelsAreSortedByName) {
  const auto models = Models();
  EXPECT_EQ(models.size(), 9U);
  EXPECT_TRUE(std::is_sorted(models.begin(), models.end(),
                             [](const auto& a, const auto& b) { return a.name < b.name; }));
}

TEST(ZooTest, AnUnknownNameSuggestsTheNearest) {
  const Status status = MakeModel("resnet51", {}).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("there is no model 'resnet51', did you mean 'resnet50'"));
  EXPECT_THAT(MakeModel("nope", {}).status().message(),
              HasSubstr("there is no model 'nope': allowed are "));
  EXPECT_THAT(MakeModel("nope", {}).status().message(), HasSubstr(", resnet50"));
}

// 5x5 without padding on what two poolings leave of 8x8.
TEST(ZooTest, ImagesThatAreTooSmallAreAnErrorThatNamesTheLayer) {
  Graph graph(op::Catalog());
  Builder b(graph);
  const Value images = op::Placeholder(b, DType::kFloat32, Shape{Shape::kUnknownDim, 8, 8, 1});
  const Value logits = MakeModel("lenet5", {}).value()({.builder = b, .training = true}, images);
  EXPECT_FALSE(logits.valid());
  EXPECT_THAT(b.status().ToString(), HasSubstr("conv2"));
}

}  // namespace
}  // namespace lockstep::model
