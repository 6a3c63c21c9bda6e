#include "lockstep/train/fingerprint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::string_view kConfig = R"([model]
name = "mlp"
[data]
source = "mnist"
path = "data/mnist"
[train]
epochs = 5
replicas = 4
gradient_accumulation = 1
[optimizer]
learning_rate = 0.5
)";

std::string Fingerprint(const std::vector<std::string>& settings = {}, RunFacts facts = {}) {
  std::vector<ConfigOverride> overrides;
  for (const std::string& setting : settings) {
    overrides.push_back(ParseSetFlag(setting).value());
  }
  const Result<Config> config = ParseConfig(kConfig, "f.toml", overrides);
  EXPECT_TRUE(config.ok()) << config.status().ToString();
  facts.sample_shape = Shape{28, 28, 1};
  return config.ok() ? MakeFingerprint(*config, facts) : std::string();
}

// The texts of what was found.
struct Found {
  std::vector<std::string> settings;
  std::vector<std::string> rounding;
  std::vector<std::string> made_up_data;
};

std::vector<std::string> Texts(const std::vector<FingerprintDifference>& differences) {
  std::vector<std::string> texts;
  for (const FingerprintDifference& difference : differences) {
    EXPECT_THAT(difference.text, HasSubstr(" in the checkpoint, "));
    texts.push_back(difference.text);
  }
  return texts;
}

Found FoundBy(const Result<FingerprintDifferences>& result) {
  EXPECT_TRUE(result.ok()) << result.status().ToString();
  return result.ok()
             ? Found{Texts(result->settings), Texts(result->rounding), Texts(result->made_up_data)}
             : Found();
}

Found Compare(const std::string& before, const std::string& now) {
  return FoundBy(CompareFingerprints(before, now));
}

TEST(FingerprintTest, WhatChangesTheTrajectoryIsNamedWithBothValues) {
  const std::string before = Fingerprint();
  const auto difference = [&](const std::vector<std::string>& settings) {
    const Found found = Compare(before, Fingerprint(settings));
    EXPECT_THAT(found.rounding, IsEmpty());
    return found.settings;
  };
  EXPECT_THAT(difference({"data.shuffle=false"}),
              ElementsAre("data.shuffle is true in the checkpoint, false in this run"));
  EXPECT_THAT(difference({"train.seed=7"}),
              ElementsAre("train.seed is 0 in the checkpoint, 7 in this run"));
  EXPECT_THAT(difference({"train.precision=bf16"}),
              ElementsAre("train.precision is \"fp32\" in the checkpoint, \"bf16\" in this run"));
  EXPECT_THAT(difference({"model.hidden=[10, 20]"}),
              ElementsAre("model.hidden is [128] in the checkpoint, [10, 20] in this run"));
  EXPECT_THAT(difference({"optimizer.learning_rate=0.25"}),
              ElementsAre("optimizer.learning_rate is 0.5 in the checkpoint, 0.25 in this run"));
  EXPECT_THAT(difference({"optimizer.name=momentum"}),
              ElementsAre("optimizer.name is \"sgd\" in the checkpoint, \"momentum\" in this run"));
  for (const char* setting : {"model.dropout=0.5", "train.global_batch=65", "train.replicas=3",
                              "train.gradient_accumulation=2", "train.label_smoothing=0.1",
                              "train.clip_value=1", "train.clip_norm=1", "train.clip_global_norm=1",
                              "optimizer.l2=0.1", "optimizer.schedule.warmup_steps=5"}) {
    EXPECT_EQ(difference({setting}).size(), 1U) << setting;
  }
  const std::vector<std::pair<std::string, std::string>> of_optimizers = {
      {"momentum", "momentum=0.5"},    {"momentum", "nesterov=true"},
      {"adam", "beta1=0.5"},           {"adam", "beta2=0.5"},
      {"adam", "epsilon=0.5"},         {"rmsprop", "rho=0.5"},
      {"rmsprop", "centered=true"},    {"adagrad", "initial_accumulator=0.5"},
      {"lars", "trust_coefficient=1"}, {"adamw", "weight_decay=0.5"}};
  for (const auto& [name, setting] : of_optimizers) {
    const Found found = Compare(Fingerprint({"optimizer.name=" + name}),
                                Fingerprint({"optimizer.name=" + name, "optimizer." + setting}));
    ASSERT_EQ(found.settings.size(), 1U) << setting;
    EXPECT_THAT(found.settings[0], HasSubstr("optimizer." + setting.substr(0, setting.find('='))));
  }
  EXPECT_THAT(Compare(Fingerprint({"optimizer.l2=1", "optimizer.decay_exclude=['a']"}),
                      Fingerprint({"optimizer.l2=1", "optimizer.decay_exclude=['a', 'b']"}))
                  .settings,
              ElementsAre("optimizer.decay_exclude is [\"a\"] in the checkpoint, [\"a\", \"b\"] in "
                          "this run"));
}

TEST(FingerprintTest, WhatDoesNotIsLeftOut) {
  for (const char* setting :
       {"train.steps=7", "train.epochs=9", "train.eval_batch=3", "train.log_every_steps=1",
        "data.path=elsewhere", "checkpoint.dir=there"}) {
    EXPECT_EQ(Fingerprint({setting}), Fingerprint()) << setting;
  }
  // The same parts of a step under other names.
  EXPECT_EQ(Fingerprint({"train.replicas=2", "train.gradient_accumulation=2"}), Fingerprint());
  EXPECT_EQ(Fingerprint({"optimizer.learning_rate=5e-1"}), Fingerprint());
  EXPECT_EQ(Fingerprint({"optimizer.name=nesterov"}),
            Fingerprint({"optimizer.name=momentum", "optimizer.nesterov=true"}));
}

TEST(FingerprintTest, TheDataBelongsToIt) {
  const std::string before =
      Fingerprint({}, {.num_classes = 10, .train_samples = 8000, .data_sha256 = "aa"});
  EXPECT_THAT(
      Compare(before,
              Fingerprint({}, {.num_classes = 10, .train_samples = 8000, .data_sha256 = "bb"}))
          .settings,
      ElementsAre("SHA-256 of the training data is aa in the checkpoint, bb in this run"));
  EXPECT_THAT(
      Compare(before,
              Fingerprint({}, {.num_classes = 10, .train_samples = 400, .data_sha256 = "aa"}))
          .settings,
      ElementsAre("training samples is 8000 in the checkpoint, 400 in this run"));
  EXPECT_THAT(
      Compare(before,
              Fingerprint({}, {.num_classes = 12, .train_samples = 8000, .data_sha256 = "aa"}))
          .settings,
      ElementsAre("model.num_classes is 10 in the checkpoint, 12 in this run"));
}

// A schedule without decay_steps is stretched over the run.
TEST(FingerprintTest, TheLengthOfTheRunCountsWhereASchedulesLengthFollowsIt) {
  const auto of_steps = [](std::vector<std::string> settings, int64_t planned) {
    settings.push_back("optimizer.schedule.warmup_steps=10");
    return Fingerprint(settings, {.planned_steps = planned});
  };
  const std::string cosine = "optimizer.schedule.name=cosine";
  EXPECT_THAT(
      Compare(of_steps({cosine}, 70), of_steps({cosine}, 200)).settings,
      ElementsAre("optimizer.schedule.decay_steps is 60 in the checkpoint, 190 in this run"));
  const std::string fixed = "optimizer.schedule.decay_steps=60";
  EXPECT_EQ(of_steps({cosine, fixed}, 70), of_steps({cosine, fixed}, 200));
  EXPECT_EQ(of_steps({cosine, fixed}, 200), of_steps({cosine}, 70));
  EXPECT_EQ(of_steps({}, 70), of_steps({}, 200));
}

TEST(FingerprintTest, ThreadsChangeTheRoundingOnly) {
  const Found found = Compare(Fingerprint({}, {.threads_per_device = 1}),
                              Fingerprint({}, {.threads_per_device = 4}));
  EXPECT_THAT(found.settings, IsEmpty());
  EXPECT_THAT(found.rounding,
              ElementsAre("--threads-per-device is 1 in the checkpoint, 4 in this run"));
}

TEST(FingerprintTest, LayersAreCompared) {
  const auto layers = [](const std::string& list) {
    return Fingerprint({"model.name=layers", "model.layers=" + list});
  };
  const std::string before = layers("[{type = 'relu'}, {type = 'dense', units = 10}]");
  EXPECT_EQ(layers("[{type = 'activation', activation = 'relu'}, {type = 'dense', units = 10}]"),
            before);
  EXPECT_THAT(
      Compare(before, layers("[{type = 'relu'}, {type = 'dense', units = 11}]")).settings,
      ElementsAre("model.layers[2] is dense, units 10 in the checkpoint, dense, units 11 in "
                  "this run"));
  EXPECT_THAT(Compare(before, layers("[{type = 'relu'}]")).settings,
              ElementsAre(HasSubstr("not there in this run")));
}

TEST(FingerprintTest, LayersAreShownInOrderAndAsTheyAre) {
  const auto layers = [](const std::string& pool, const std::string& units) {
    std::string list = "[" + pool;
    for (int i = 0; i < 10; ++i) {
      list += ", {type = 'dense', units = " + units + "}";
    }
    return Fingerprint({"model.name=layers", "model.layers=" + list + "]"});
  };
  // What is no default of the type is shown, here the stride of a pool, for which the kernel is it.
  const std::vector<std::string> found =
      Compare(layers("{type = 'max_pool', stride = 1}", "5"),
              layers("{type = 'max_pool', stride = 2, padding = 'same'}", "6"))
          .settings;
  ASSERT_EQ(found.size(), 11U);
  EXPECT_EQ(found[0],
            "model.layers[1] is max_pool, kernel [2, 2], padding valid, stride [1, 1] in the "
            "checkpoint, max_pool, kernel [2, 2], stride [2, 2], padding same in this run");
  for (size_t i = 1; i < found.size(); ++i) {
    EXPECT_THAT(found[i], HasSubstr("model.layers[" + std::to_string(i + 1) + "] is dense"));
  }
}

// What evaluation asks for: an activation has neither a variable nor a shape that would tell.
TEST(FingerprintTest, ModelsAreComparedWithoutTheRun) {
  const auto compare = [](const std::vector<std::string>& before,
                          const std::vector<std::string>& now, const std::string& data = "aa") {
    return FoundBy(CompareModels(
        Fingerprint(before, {.num_classes = 10, .train_samples = 8, .data_sha256 = data}),
        Fingerprint(now, {.num_classes = 10, .data_sha256 = data})));
  };
  const std::string layers =
      "model.layers=[{type = 'dense', units = 10, activation = 'ACTIVATION'}]";
  const auto with = [&](const std::string& activation) {
    std::string text = layers;
    return std::vector<std::string>{"model.name=layers",
                                    text.replace(text.find("ACTIVATION"), 10, activation)};
  };
  EXPECT_THAT(compare(with("relu"), with("tanh")).settings,
              ElementsAre("model.layers[1] is dense, units 10, activation relu in the checkpoint, "
                          "dense, units 10, activation tanh in this run"));
  EXPECT_THAT(compare(with("relu"), with("relu")).settings, IsEmpty());
  EXPECT_THAT(compare({}, {"model.hidden=[64]"}).settings,
              ElementsAre("model.hidden is [128] in the checkpoint, [64] in this run"));
  EXPECT_THAT(compare({}, {"model.dropout=0.5"}).settings.size(), 1U);
  // How it was trained is of no importance, but for the precision.
  const Found run = compare({}, {"train.seed=7", "train.replicas=2", "optimizer.name=adam",
                                 "train.global_batch=5", "train.precision=bf16"});
  EXPECT_THAT(run.settings, IsEmpty());
  EXPECT_THAT(run.made_up_data, IsEmpty());
  EXPECT_THAT(run.rounding, ElementsAre("train.precision is \"fp32\" in the checkpoint, \"bf16\" "
                                        "in this run"));
  EXPECT_THAT(compare({}, {"train.seed=7"}, "").made_up_data,
              ElementsAre("train.seed is 0 in the checkpoint, 7 in this run"));
  EXPECT_EQ(CompareModels("", Fingerprint()).status().code(), StatusCode::kFailedPrecondition);
}

TEST(FingerprintTest, MessagesAreShortAndPlain) {
  const std::string long_value = "{\"a\": \"" + std::string(1000, 'x') + "\"}";
  EXPECT_LT(Compare("{}", long_value).settings[0].size(), 300U);
  EXPECT_THAT(Compare("{}", "{\"\\u001b\": \"\\n\"}").settings,
              ElementsAre("\\x1b is not there in the checkpoint, \\n in this run"));
}

TEST(FingerprintTest, WhatIsNoFingerprintIsAnError) {
  for (const char* stored : {"", "model mlp, replicas 1", "[1]", "{\"a\": 1}", "{\"a\"", "null"}) {
    const Status status = CompareFingerprints(stored, Fingerprint()).status();
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << stored;
    EXPECT_THAT(status.message(), HasSubstr("does not say with which settings it was made"));
  }
}

}  // namespace
}  // namespace lockstep::train
