#include "lockstep/train/model_from_config.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "lockstep/op/catalog.h"
#include "lockstep/op/placeholder.h"

namespace lockstep::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// The [model] section of a configuration file.
ModelConfig ParseModel(const std::string& model) {
  const std::string text = model +
                           "\n[data]\nsource = 'mnist'\npath = 'x'\n"
                           "[optimizer]\nlearning_rate = 0.1\n";
  const Result<Config> config = ParseConfig(text, "model.toml", {});
  EXPECT_TRUE(config.ok()) << config.status().ToString();
  return config.ok() ? config->model : ModelConfig();
}

// [model] name = 'layers', with one table for each text.
ModelConfig ParseLayers(const std::vector<std::string>& layers) {
  std::string text = "[model]\nname = 'layers'\n";
  for (const std::string& layer : layers) {
    text += fmt::format("[[model.layers]]\n{}\n", layer);
  }
  return ParseModel(text);
}

class ModelFromConfigTest : public ::testing::Test {
 protected:
  Value Build(const ModelConfig& config, const Shape& input, bool training = true,
              int64_t classes = 10) {
    const Result<model::ModelFn> model = ModelFromConfig(config, classes);
    EXPECT_TRUE(model.ok()) << model.status().ToString();
    const Value x = op::Placeholder(b_, DType::kFloat32, input);
    return model.ok() ? (*model)({.builder = b_, .training = training}, x) : Value();
  }

  // Names and shapes of all variables.
  std::map<std::string, std::string> Variables() {
    std::map<std::string, std::string> shapes;
    for (const Value& variable : graph_.Collection(collection::kVariables)) {
      shapes[variable.node->name] = variable.shape().ToString();
    }
    return shapes;
  }

  std::vector<std::string> Ops() {
    std::vector<std::string> ops;
    for (const auto& node : graph_.nodes()) {
      ops.emplace_back(node->op->name);
    }
    return ops;
  }

  Graph graph_{op::Catalog()};
  Builder b_{graph_};
};

TEST_F(ModelFromConfigTest, ANameWithItsOptions) {
  const Value logits =
      Build(ParseModel("[model]\nname = 'mlp'\nhidden = [6, 4]\ndropout = 0.5"), Shape{-1, 3});
  EXPECT_EQ(logits.shape(), (Shape{-1, 10}));
  EXPECT_EQ(Variables().at("dense1/kernel"), "[3, 6]");
  EXPECT_EQ(Variables().at("dense2/kernel"), "[6, 4]");
  EXPECT_THAT(Ops(), ::testing::Contains("Dropout"));
}

TEST_F(ModelFromConfigTest, MoreClassesThanTheDataHas) {
  const ModelConfig config = ParseModel("[model]\nname = 'softmax_regression'\nnum_classes = 12");
  EXPECT_EQ(Build(config, Shape{-1, 3}).shape(), (Shape{-1, 12}));
}

TEST_F(ModelFromConfigTest, FewerClassesThanTheDataHasIsAnError) {
  const ModelConfig config = ParseModel("[model]\nname = 'softmax_regression'\nnum_classes = 9");
  EXPECT_THAT(ModelFromConfig(config, 10).status().message(),
              HasSubstr("model.num_classes is 9, the data has 10 classes"));
}

TEST_F(ModelFromConfigTest, EveryLayer) {
  const ModelConfig config = ParseLayers({
      "type = 'conv2d'\nfilters = 6\nkernel = [3, 5]\nstride = [2, 1]\npadding = 'valid'\n"
      "dilation = [1, 2]\ngroups = 2\nbias = false\nactivation = 'relu'",
      "type = 'batch_norm'\nmomentum = 0.5\nepsilon = 0.25",
      "type = 'max_pool'\nkernel = 2",
      "type = 'avg_pool'\nkernel = 2\nstride = 1\npadding = 'same'",
      "type = 'sigmoid'",
      "type = 'conv2d'\nfilters = 4\nkernel = 1",
      "type = 'global_avg_pool'",
      "type = 'flatten'",
      "type = 'dropout'\nrate = 0.25",
      "type = 'activation'\nactivation = 'tanh'",
      "type = 'dense'\nunits = 7\nbias = false",
      "type = 'dense'\nunits = 10",
  });
  // Heights: 11 -> (11 - 3) / 2 + 1 = 5 -> 2 -> 2; widths: 19 -> 19 - 8 = 11 -> 5 -> 5.
  const Value logits = Build(config, Shape{-1, 11, 19, 4});
  ASSERT_TRUE(b_.status().ok()) << b_.status().ToString();
  EXPECT_EQ(logits.shape(), (Shape{-1, 10}));
  EXPECT_THAT(
      Variables(),
      ElementsAre(Pair("layer11_dense/kernel", "[4, 7]"), Pair("layer12_dense/bias", "[10]"),
                  Pair("layer12_dense/kernel", "[7, 10]"),
                  Pair("layer1_conv2d/filter", "[3, 5, 2, 6]"),
                  Pair("layer2_batch_norm/moving_mean", "[6]"),
                  Pair("layer2_batch_norm/moving_variance", "[6]"),
                  Pair("layer2_batch_norm/offset", "[6]"), Pair("layer2_batch_norm/scale", "[6]"),
                  Pair("layer6_conv2d/bias", "[4]"), Pair("layer6_conv2d/filter", "[1, 1, 6, 4]")));
  const Node* norm = nullptr;
  Shape pooled;
  Shape averaged;
  for (const auto& node : graph_.nodes()) {
    if (node->op->name == "BatchNorm") {
      norm = node.get();
    } else if (node->op->name == "MaxPool") {
      pooled = node->outputs[0].shape;
    } else if (node->op->name == "AvgPool") {
      averaged = node->outputs[0].shape;
    }
  }
  ASSERT_NE(norm, nullptr);
  EXPECT_EQ(norm->attrs.GetFloat("epsilon"), 0.25);
  EXPECT_EQ(norm->outputs[0].shape, (Shape{-1, 5, 11, 6}));
  EXPECT_EQ(pooled, (Shape{-1, 2, 5, 6}));
  EXPECT_EQ(averaged, (Shape{-1, 2, 5, 6}));
  for (const std::string op : {"Relu", "Sigmoid", "Tanh", "Dropout"}) {
    EXPECT_THAT(Ops(), ::testing::Contains(op));
  }
}

TEST_F(ModelFromConfigTest, LayerNorm) {
  const ModelConfig config = ParseLayers({"type = 'layer_norm'\nepsilon = 0.25"});
  EXPECT_EQ(Build(config, Shape{-1, 5}).shape(), (Shape{-1, 5})) << b_.status().ToString();
  EXPECT_THAT(Variables(), ElementsAre(Pair("layer1_layer_norm/offset", "[5]"),
                                       Pair("layer1_layer_norm/scale", "[5]")));
  EXPECT_EQ(graph_.nodes().back()->attrs.GetFloat("epsilon"), 0.25);
}

TEST_F(ModelFromConfigTest, TrainingAndEvaluationHaveTheSameVariables) {
  const ModelConfig config = ParseLayers({"type = 'dropout'\nrate = 0.5", "type = 'batch_norm'",
                                          "type = 'dense'\nunits = 3", "type = 'batch_norm'"});
  ASSERT_TRUE(Build(config, Shape{-1, 4}, true).valid()) << b_.status().ToString();
  Graph other(op::Catalog());
  Builder builder(other);
  const Value x = op::Placeholder(builder, DType::kFloat32, Shape{-1, 4});
  ASSERT_TRUE(ModelFromConfig(config, 3).value()({.builder = builder}, x).valid());
  std::vector<std::string> names;
  for (const Value& variable : other.Collection(collection::kVariables)) {
    names.push_back(variable.node->name);
  }
  std::vector<std::string> expected;
  for (const Value& variable : graph_.Collection(collection::kVariables)) {
    expected.push_back(variable.node->name);
  }
  EXPECT_EQ(names, expected);
  EXPECT_EQ(names.size(), 10U);
}

TEST_F(ModelFromConfigTest, AnErrorNamesTheLayerAndItsPlaceInTheFile) {
  const ModelConfig config =
      ParseLayers({"type = 'flatten'", "type = 'conv2d'\nfilters = 2\nkernel = 3"});
  EXPECT_FALSE(Build(config, Shape{-1, 8, 8, 1}).valid());
  EXPECT_THAT(b_.status().ToString(), HasSubstr("(model.toml:5)"));
  EXPECT_THAT(b_.status().ToString(), HasSubstr("[model.layers[2] (conv2d)]"));
}

TEST_F(ModelFromConfigTest, AnErrorOfANetworkNamesTheConfigurationAndNoSourceFile) {
  EXPECT_FALSE(Build(ParseModel("\n[model]\nname = 'resnet18'"), Shape{-1, 10}).valid());
  EXPECT_THAT(b_.status().ToString(), HasSubstr("(model.toml:2)"));
  EXPECT_THAT(b_.status().ToString(), ::testing::Not(HasSubstr(".cc")));
}

// An override has no line, but the section has.
TEST_F(ModelFromConfigTest, AnErrorOfALayerFromTheCommandLineNamesTheFlagAndNoSourceFile) {
  const std::vector<ConfigOverride> overrides = {
      ParseSetFlag("model.name=layers").value(),
      ParseSetFlag("model.layers=[{type='conv2d', filters=2, kernel=99}]").value()};
  const Config config =
      ParseConfig(
          "\n[model]\nname = 'mlp'\n[data]\nsource = 'mnist'\npath = 'x'\n[optimizer]\n"
          "learning_rate = 1",
          "model.toml", overrides)
          .value();
  EXPECT_FALSE(Build(config.model, Shape{-1, 8, 8, 1}).valid());
  EXPECT_THAT(b_.status().ToString(),
              HasSubstr("[model.toml:2; model.layers[1] (conv2d) of --set model.layers=[{type="));
  EXPECT_THAT(b_.status().ToString(), ::testing::Not(HasSubstr(".cc")));
}

TEST_F(ModelFromConfigTest, AKernelThatCannotTouchItsInputIsRefused) {
  const auto error = [](const std::string& layer, const Shape& input) {
    Graph graph(op::Catalog());
    Builder b(graph);
    const Value x = op::Placeholder(b, DType::kFloat32, input);
    ModelFromConfig(ParseLayers({layer}), 10).value()({.builder = b}, x);
    return b.status().ToString();
  };
  const std::string conv = "type = 'conv2d'\nfilters = 2\n";
  // 2 * 8 - 1 is the most.
  EXPECT_EQ(error(conv + "kernel = 15", Shape{-1, 8, 8, 1}), "OK");
  EXPECT_THAT(error(conv + "kernel = 16", Shape{-1, 8, 8, 1}),
              HasSubstr("a kernel of height 16 on an input of height 8: at most 15 can touch it "
                        "with padding 'same' [model.toml:3; model.layers[1] (conv2d)]"));
  EXPECT_THAT(error(conv + "kernel = [3, 1024]", Shape{-1, 8, 28, 1}),
              HasSubstr("a kernel of width 1024 on an input of width 28: at most 55"));
  EXPECT_EQ(error(conv + "kernel = 3\ndilation = 7", Shape{-1, 8, 8, 1}), "OK");
  EXPECT_THAT(error(conv + "kernel = 3\ndilation = 8", Shape{-1, 8, 8, 1}),
              HasSubstr("a kernel of height 3 and dilation 8 on"));
  for (const std::string pool : {"max_pool", "avg_pool"}) {
    EXPECT_THAT(error("type = '" + pool + "'\nkernel = 99\npadding = 'same'", Shape{-1, 8, 8, 1}),
                HasSubstr("a kernel of height 99"));
  }
  // Without padding it never fitted.
  EXPECT_THAT(error(conv + "kernel = 9\npadding = 'valid'", Shape{-1, 8, 8, 1}),
              HasSubstr("does not fit"));
}

TEST_F(ModelFromConfigTest, AKernelLargerThanItsInputNamesItsLayer) {
  const ModelConfig config =
      ParseLayers({"type = 'max_pool'\nkernel = 9", "type = 'dense'\nunits = 2"});
  EXPECT_FALSE(Build(config, Shape{-1, 8, 8, 1}).valid());
  EXPECT_THAT(b_.status().ToString(), HasSubstr("model.layers[1] (max_pool)"));
}

TEST_F(ModelFromConfigTest, GroupsMustDivideTheChannels) {
  const ModelConfig config = ParseLayers({"type = 'conv2d'\nfilters = 6\nkernel = 1\ngroups = 3"});
  EXPECT_FALSE(Build(config, Shape{-1, 8, 8, 4}).valid());
  EXPECT_THAT(b_.status().ToString(), HasSubstr("3 groups do not divide the 4 channels"));
}

TEST_F(ModelFromConfigTest, TheKindsOfLayersAreThoseOfTheConfiguration) {
  ModelConfig config;
  config.name = "layers";
  config.layers = {{.type = "fourier", .where = "here"}};
  EXPECT_FALSE(Build(config, Shape{-1, 8}).valid());
  EXPECT_THAT(b_.status().ToString(), HasSubstr("no layer 'fourier'"));
}

TEST_F(ModelFromConfigTest, AnUnknownNameSuggestsTheNearest) {
  ModelConfig config;
  config.name = "mnist_cn";
  EXPECT_THAT(ModelFromConfig(config, 10).status().message(),
              HasSubstr("did you mean 'mnist_cnn'"));
}

}  // namespace
}  // namespace lockstep::train
