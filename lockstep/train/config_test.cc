#include "lockstep/train/config.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/file.h"
#include "lockstep/base/testing/temp_folder.h"

namespace lockstep::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// The least that a configuration must say. Seven lines.
constexpr std::string_view kMinimal = R"([model]
name = "mlp"
[data]
source = "mnist"
path = "data/mnist"
[optimizer]
learning_rate = 0.5
)";

Result<Config> Parse(const std::string& text, const std::vector<ConfigOverride>& overrides = {}) {
  return ParseConfig(text, "f.toml", overrides);
}

// kMinimal with more lines behind it, which begin at line 8 in [optimizer].
Result<Config> ParseMore(const std::string& more,
                         const std::vector<ConfigOverride>& overrides = {}) {
  return Parse(std::string(kMinimal) + more, overrides);
}

std::string Error(const std::string& more, const std::vector<ConfigOverride>& overrides = {}) {
  const Status status = ParseMore(more, overrides).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << more;
  return status.message();
}

ConfigOverride Set(std::string_view argument) {
  return ParseSetFlag(argument).value();
}

TEST(ConfigTest, WhatIsNotSaidHasItsDefault) {
  const Config config = ParseMore("").value();
  EXPECT_EQ(config.model.name, "mlp");
  EXPECT_EQ(config.model.num_classes, 0);
  EXPECT_THAT(config.model.hidden, ElementsAre(128));
  EXPECT_EQ(config.data.path, "data/mnist");
  EXPECT_TRUE(config.data.shuffle);
  EXPECT_EQ(config.train.global_batch, 64);
  EXPECT_EQ(config.train.epochs, 1);
  EXPECT_EQ(config.train.steps, 0);
  EXPECT_EQ(config.train.precision, "fp32");
  EXPECT_EQ(config.optimizer.name, "sgd");
  EXPECT_EQ(config.optimizer.learning_rate, 0.5);
  EXPECT_EQ(config.optimizer.schedule.name, "constant");
  EXPECT_EQ(config.cluster.mode, "sync");
  EXPECT_EQ(config.checkpoint.every_steps, 0);
  EXPECT_EQ(config.monitor.logdir, "");
}

TEST(ConfigTest, EverySectionIsRead) {
  const Config config = Parse(R"(
[model]
name = "mnist_cnn"
num_classes = 10
input_shape = [28, 28, 1]
dropout = 0.25
[data]
source = "synthetic"
train_samples = 100
test_samples = 0
shuffle = false
[train]
global_batch = 100
epochs = 5
steps = 7
seed = 9223372036854775807
replicas = 4
precision = "bf16"
eval_batch = 50
log_every_steps = 10
label_smoothing = 0.1
gradient_accumulation = 2
clip_global_norm = 1
check_replicas = 100
merge_steps = 50
outer_learning_rate = 0.7
outer_momentum = 0.9
outer_nesterov = true
[optimizer]
name = "momentum"
nesterov = true
momentum = 0.8
l2 = 1e-4
decay_exclude = ["*bias", "*beta"]
[optimizer.schedule]
name = "piecewise"
boundaries = [10, 20]
values = [1, 0.1, 0.01]
warmup_steps = 5
[cluster]
mode = "async"
max_restarts = 3
transport = "grpc"
bucket_bytes = 65536
algorithm = "pairwise"
start_timeout = 20
step_timeout = 30.5
heartbeat = 0.5
[checkpoint]
every_steps = 100
dir = "runs/a"
[monitor]
logdir = "runs/b"
)")
                            .value();
  EXPECT_EQ(config.model.num_classes, 10);
  EXPECT_THAT(config.model.input_shape, ElementsAre(28, 28, 1));
  EXPECT_EQ(config.model.dropout, 0.25);
  EXPECT_EQ(config.data.source, "synthetic");
  EXPECT_EQ(config.data.train_samples, 100);
  EXPECT_EQ(config.data.test_samples, 0);
  EXPECT_FALSE(config.data.shuffle);
  EXPECT_EQ(config.train.global_batch, 100);
  EXPECT_EQ(config.train.epochs, 5);
  EXPECT_EQ(config.train.steps, 7);
  EXPECT_EQ(config.train.seed, INT64_MAX);
  EXPECT_EQ(config.train.replicas, 4);
  EXPECT_EQ(config.train.precision, "bf16");
  EXPECT_EQ(config.train.eval_batch, 50);
  EXPECT_EQ(config.train.log_every_steps, 10);
  EXPECT_EQ(config.train.label_smoothing, 0.1);
  EXPECT_EQ(config.train.gradient_accumulation, 2);
  EXPECT_EQ(config.train.clip_global_norm, 1);
  EXPECT_EQ(config.optimizer.name, "momentum");
  EXPECT_TRUE(config.optimizer.nesterov);
  EXPECT_EQ(config.optimizer.momentum, 0.8);
  EXPECT_EQ(config.optimizer.l2, 1e-4);
  EXPECT_THAT(config.optimizer.decay_exclude, ElementsAre("*bias", "*beta"));
  EXPECT_THAT(config.optimizer.schedule.boundaries, ElementsAre(10, 20));
  EXPECT_THAT(config.optimizer.schedule.values, ElementsAre(1, 0.1, 0.01));
  EXPECT_EQ(config.optimizer.schedule.warmup_steps, 5);
  EXPECT_EQ(config.cluster.mode, "async");
  EXPECT_EQ(config.cluster.max_restarts, 3);
  EXPECT_EQ(config.cluster.transport, "grpc");
  EXPECT_EQ(config.cluster.bucket_bytes, 65536);
  EXPECT_EQ(config.cluster.algorithm, "pairwise");
  EXPECT_EQ(config.cluster.start_timeout, 20);
  EXPECT_EQ(config.cluster.step_timeout, 30.5);
  EXPECT_EQ(config.cluster.heartbeat, 0.5);
  EXPECT_EQ(config.train.check_replicas, 100);
  EXPECT_EQ(config.train.merge_steps, 50);
  EXPECT_EQ(config.train.outer_learning_rate, 0.7);
  EXPECT_EQ(config.train.outer_momentum, 0.9);
  EXPECT_TRUE(config.train.outer_nesterov);
  EXPECT_EQ(config.checkpoint.every_steps, 100);
  EXPECT_EQ(config.checkpoint.dir, "runs/a");
  EXPECT_EQ(config.monitor.logdir, "runs/b");
}

TEST(ConfigTest, KnowsWhatWasGivenAndWhere) {
  const Config config =
      ParseMore("[cluster]\nmax_restarts = 0\n", {{"--steps 3", "train.steps", "3"}}).value();
  EXPECT_TRUE(config.IsGiven("cluster.max_restarts"));
  EXPECT_FALSE(config.IsGiven("cluster.mode"));
  EXPECT_EQ(config.given.at("cluster.max_restarts"), "f.toml:9:16");
  EXPECT_EQ(config.given.at("train.steps"), "--steps 3");
  EXPECT_EQ(config.given.at("model.name"), "f.toml:2:8");
}

TEST(ConfigTest, UnknownKeysAndSectionsSuggestTheNearest) {
  EXPECT_EQ(Error("lerning_rate = 1"),
            "f.toml:8:1: unknown key 'optimizer.lerning_rate', did you mean 'learning_rate'?");
  EXPECT_EQ(Error("lr = 1"),
            "f.toml:8:1: unknown key 'optimizer.lr', did you mean 'learning_rate'?");
  EXPECT_EQ(Error("  colour = 'red'"), "f.toml:8:3: unknown key 'optimizer.colour'");
  EXPECT_EQ(Error("[trian]\nsteps = 1"),
            "f.toml:8:2: unknown section 'trian', did you mean 'train'?");
  EXPECT_EQ(Parse("steps = 1").status().message(), "f.toml:1:1: unknown section 'steps'");
  EXPECT_EQ(Error("[optimizer.schedules]\nname='cosine'"),
            "f.toml:8:12: unknown key 'optimizer.schedules', did you mean 'schedule'?");
  // The first in the file, whatever the alphabet says.
  EXPECT_THAT(Error("zzz = 1\naaa = 1"), HasSubstr("'optimizer.zzz'"));
}

TEST(ConfigTest, AMisspeltKeyIsNotMissing) {
  const auto error = [](const std::string& text) { return Parse(text).status().message(); };
  EXPECT_EQ(error("[model]\nname = 'mlp'\n[data]\nsource = 'mnist'\npaht = 'x'"),
            "f.toml:5:1: unknown key 'data.paht', did you mean 'path'?");
  EXPECT_EQ(error("[model]\nnmae = 'mlp'"),
            "f.toml:2:1: unknown key 'model.nmae', did you mean 'name'?");
  EXPECT_THAT(error("[model]\nhidden = [1]"), StartsWith("f.toml:1:1: missing key 'model.name'"));
}

TEST(ConfigTest, WrongTypesSayWhatWasFoundAndWhatIsAllowed) {
  EXPECT_EQ(Error("[train]\nsteps = 'five'"),
            "f.toml:9:9: train.steps: found 'five', allowed are integers from 0 to 1000000000000");
  EXPECT_EQ(Error("[train]\nsteps = 1e3"),
            "f.toml:9:9: train.steps: found the real number 1000, allowed are integers from 0 to "
            "1000000000000");
  EXPECT_EQ(Error("[checkpoint]\ndir = 5"),
            "f.toml:9:7: checkpoint.dir: found 5, allowed are strings");
  EXPECT_EQ(Error("l2 = true"),
            "f.toml:8:6: optimizer.l2: found true, allowed are numbers of at least 0");
  EXPECT_EQ(
      Error("l2 = 1\ndecay_exclude = ['a', 5]"),
      "f.toml:9:23: optimizer.decay_exclude: found 5, allowed are strings that are not empty");
  EXPECT_EQ(Error("[train]\nseed = [1, 2]"),
            "f.toml:9:8: train.seed: found an array of 2, allowed are integers from 0 to "
            "9223372036854775807");
  EXPECT_EQ(Error("[monitor]\nlogdir = 2020-01-01"),
            "f.toml:9:10: monitor.logdir: found a date or time, allowed are strings");
  EXPECT_EQ(Parse("train = 5").status().message(),
            "f.toml:1:9: train: found 5, allowed are sections: [train]");
  EXPECT_EQ(Error("[[train]]\nsteps = 5"),
            "f.toml:8:1: train: found an array of 1, allowed are sections: [train]");
}

TEST(ConfigTest, DecayThatTheOptimizerDoesNotKnowIsRefused) {
  EXPECT_THAT(Error("weight_decay = 0.1"),
              HasSubstr("has no effect for optimizer.name = 'sgd', only for adamw, lars, lamb"));
}

TEST(ConfigTest, ValuesOutOfRangeAreErrors) {
  EXPECT_EQ(Error("[train]\nglobal_batch = 0"),
            "f.toml:9:16: train.global_batch: found 0, allowed are integers from 1 to 2147483647");
  EXPECT_EQ(
      Error("l2 = -0.5"),
      "f.toml:8:6: optimizer.l2: found the real number -0.5, allowed are numbers of at least 0");
  for (const char* value : {"nan", "inf", "-inf", "1.0", "-0.1"}) {
    EXPECT_THAT(Error(std::string("[train]\nlabel_smoothing = ") + value),
                HasSubstr("allowed are numbers from 0 to less than 1"));
  }
  EXPECT_THAT(Error("l2 = nan"), HasSubstr("allowed are numbers of at least 0"));
  // Nothing is offered that would be refused in the next moment.
  EXPECT_EQ(Error("[cluster]\nmode = 'asynk'"),
            "f.toml:9:8: cluster.mode: found 'asynk', allowed are sync");
  EXPECT_EQ(Error("momentun = 0.5"), "f.toml:8:1: unknown key 'optimizer.momentun'");
  EXPECT_THAT(Error("[checkpoint]\ndir = ''"), HasSubstr("strings that are not empty"));
}

// Kernels compute in float32: what is infinity, zero or a bound there is not what was asked for.
TEST(ConfigTest, NumbersMustFitFloat32) {
  EXPECT_EQ(
      Error("l2 = 1e39"),
      "f.toml:8:6: optimizer.l2: found the real number 1e+39, allowed are numbers of at least "
      "0 that float32 can hold: 0, and 1.2e-38 to 3.4e+38");
  for (const char* value : {"1e39", "1e300", "1e-39", "1e-300", "5e-324"}) {
    const auto set = [value](const std::string& key) {
      return std::vector<ConfigOverride>{Set(key + "=" + value)};
    };
    for (const char* key : {"optimizer.learning_rate", "optimizer.l2", "train.clip_norm",
                            "train.clip_value", "train.clip_global_norm"}) {
      EXPECT_THAT(Error("", set(key)), HasSubstr(std::string(key) + ": found")) << value;
    }
    EXPECT_THAT(Error("name = 'lars'", set("optimizer.trust_coefficient")), HasSubstr("float32"));
    EXPECT_THAT(Error("name = 'lars'", set("optimizer.weight_decay")), HasSubstr("float32"));
    EXPECT_THAT(Error("name = 'adam'", set("optimizer.epsilon")), HasSubstr("float32"));
    EXPECT_THAT(Error("name = 'adagrad'", set("optimizer.initial_accumulator")),
                HasSubstr("float32"));
    EXPECT_THAT(
        Error("[optimizer.schedule]\nname = 'cosine'", set("optimizer.schedule.end_learning_rate")),
        HasSubstr("float32"));
  }
  EXPECT_THAT(Error("[optimizer.schedule]\nname='piecewise'\nboundaries=[1]\nvalues=[1, 1e39]",
                    {Set("optimizer.learning_rate=0.1")}),
              HasSubstr("optimizer.schedule.values: found the real number 1e+39"));
  // 1 in float32: a mean that keeps everything, a division by zero.
  EXPECT_EQ(Error("name = 'adam'\nbeta2 = 0.9999999999"),
            "f.toml:9:9: optimizer.beta2: found the real number 0.9999999999, which is 1 in "
            "float32: allowed are numbers from 0 to less than 1");
  EXPECT_THAT(Error("[train]\nlabel_smoothing = 0.99999999999"), HasSubstr("is 1 in float32"));
  EXPECT_TRUE(ParseMore("l2 = 3.4e38\n[train]\nclip_norm = 1.2e-38").ok());
  EXPECT_TRUE(ParseMore("l2 = 0\n[train]\nclip_norm = 0.0").ok());
  EXPECT_EQ(ParseMore("name = 'adam'\nbeta2 = 0.9999999")->optimizer.beta2, 0.9999999);
}

TEST(ConfigTest, MessagesAreOneShortLineWhateverTheyQuote) {
  const std::string hostile = "a\x1b[31m\nb";
  const std::string value = "\"a\\u001b[31m\\nb\"";
  EXPECT_THAT(Error("name = " + value), HasSubstr("found 'a\\x1b[31m\\nb', allowed are sgd"));
  EXPECT_THAT(Error(value + " = 1"), HasSubstr("unknown key 'optimizer.a\\x1b[31m\\nb'"));
  const std::string huge(100'000, 'x');
  const std::vector<std::string> messages = {
      Error("name = '" + huge + "'"),
      Error(huge + " = 1"),
      Error("", {Set("optimizer.name=" + huge)}),
      Error("", {Set("optimizer." + huge + "=1")}),
      Error("", {Set(huge + "=1")}),
      Error("[train]\nsteps = '" + huge + "'"),
      Error(huge),
      Error("", {Set("optimizer.name=" + hostile)}),
      ParseSetFlag(huge).status().message(),
      ParseSetFlag(hostile).status().message(),
      ParseConfig("x", huge + hostile, {}).status().message(),
      LoadConfig(huge + hostile, {}).status().message(),
  };
  for (const std::string& message : messages) {
    EXPECT_LT(message.size(), 2500U) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_EQ(message.find('\x1b'), std::string::npos) << message;
  }
}

TEST(ConfigTest, WhatIsRequiredIsMissed) {
  EXPECT_THAT(Parse("").status().message(),
              StartsWith("f.toml: missing key 'model.name', allowed are softmax_regression, mlp"));
  EXPECT_EQ(Parse("[model]\nname = 'mlp'\n\n[data]\nsource = 'idx'").status().message(),
            "f.toml:4:1: missing key 'data.path' for data.source = 'idx'");
  EXPECT_EQ(Parse("[model]\nname = 'mlp'\n[data]\nsource = 'synthetic'\n"
                  "[optimizer]\nlearning_rate = 1")
                .status()
                .message(),
            "f.toml:1:1: missing key 'model.input_shape' for data.source = 'synthetic'");
  EXPECT_EQ(Parse("[model]\nname = 'mlp'\n[data]\nsource = 'mnist'\npath = 'x'\n[optimizer]")
                .status()
                .message(),
            "f.toml:6:1: missing key 'optimizer.learning_rate'");
}

TEST(ConfigTest, ASampleHasABound) {
  const auto error = [](const std::string& shape) {
    return Error("", {ParseSetFlag("model.input_shape=" + shape).value()});
  };
  EXPECT_TRUE(ParseMore("", {Set("model.input_shape=[65536, 32767]")}).ok());
  for (const char* shape : {"[65536, 32768]", "[1048576, 1048576, 1048576]",
                            "[1048576, 1048576, 1048576, 1048576, 1048576, 1048576, 1048576]"}) {
    EXPECT_THAT(error(shape), HasSubstr("model.input_shape: found"));
    EXPECT_THAT(error(shape), HasSubstr("too many elements, a sample has at most 2147483647"));
  }
}

TEST(ConfigTest, SettingsWithoutEffectAreRefused) {
  EXPECT_EQ(Error("name = 'adam'\nmomentum = 0.9"),
            "f.toml:9:12: optimizer.momentum: has no effect for optimizer.name = 'adam', only for "
            "momentum, lars, rmsprop");
  EXPECT_THAT(Error("name = 'nesterov'\nnesterov = false"), HasSubstr("says it already"));
  EXPECT_THAT(Error("[optimizer.schedule]\nname = 'cosine'\npower = 2"),
              HasSubstr("optimizer.schedule.power: has no effect"));
  EXPECT_THAT(Error("[optimizer.schedule]\nvalues = [1]"),
              HasSubstr("optimizer.schedule.values: has no effect"));
  EXPECT_THAT(Error("", {Set("data.train_samples=5")}),
              HasSubstr("has no effect for data.source = 'mnist'"));
  EXPECT_THAT(Error("", {Set("model.name=lenet5"), Set("model.hidden=[5]")}),
              HasSubstr("model.hidden: has no effect for model.name = 'lenet5'"));
  EXPECT_THAT(Error("[train]\nclip_norm = 1\nclip_global_norm = 1"),
              HasSubstr("cannot be combined"));
  EXPECT_THAT(Error("[train]\nclip_norm = 1\nclip_value = 1"), HasSubstr("cannot be combined"));
}

TEST(ConfigTest, ExclusionsFromADecayThatIsNotThereAreRefused) {
  EXPECT_EQ(Error("decay_exclude = ['*bias']"),
            "f.toml:8:17: optimizer.decay_exclude: has no effect without weight_decay or l2");
  // One that is switched off for a run is there.
  EXPECT_TRUE(ParseMore("l2 = 0\ndecay_exclude = ['*bias']").ok());
  EXPECT_TRUE(ParseMore("name = 'adamw'\nweight_decay = 0.1\ndecay_exclude = ['*bias']").ok());
}

TEST(ConfigTest, OptimizersHaveTheirOwnDefaults) {
  EXPECT_EQ(ParseMore("name = 'rmsprop'")->optimizer.momentum, 0.0);
  EXPECT_EQ(ParseMore("name = 'lars'")->optimizer.momentum, 0.9);
  EXPECT_EQ(ParseMore("name = 'adam'")->optimizer.epsilon, 1e-7);
  EXPECT_EQ(ParseMore("name = 'lamb'")->optimizer.epsilon, 1e-6);
  const Config nesterov = ParseMore("name = 'nesterov'").value();
  EXPECT_EQ(nesterov.optimizer.name, "momentum");
  EXPECT_TRUE(nesterov.optimizer.nesterov);
}

TEST(ConfigTest, SchedulesAreChecked) {
  const auto error = [](const std::string& lines) {
    return Error("[optimizer.schedule]\n" + lines);
  };
  EXPECT_EQ(error("name = 'exponential'\ndecay_steps = 10"),
            "f.toml:8:1: missing key 'optimizer.schedule.decay_rate' for an exponential schedule");
  EXPECT_THAT(error("name = 'piecewise'\nboundaries = [5, 5]\nvalues = [1, 2, 3]"),
              HasSubstr("boundaries: found 5 before 5, allowed are increasing steps"));
  EXPECT_THAT(error("name = 'piecewise'\nboundaries = [5]\nvalues = [1]"),
              HasSubstr("values: found 1 value for 1 boundary, expected 2"));
  EXPECT_THAT(error("name = 'piecewise'\nboundaries = []\nvalues = [1]"),
              HasSubstr("boundaries: found none, expected at least one"));
  EXPECT_THAT(error("name = 'piecewise'\nboundaries = [5]\nvalues = [1, 2]"),
              HasSubstr("learning_rate: has no effect with a piecewise schedule"));
  EXPECT_THAT(error("name = 'cosine'\ndecay_steps = 0"), HasSubstr("integers from 1 to"));
  const Config config =
      ParseMore(
          "[optimizer.schedule]\nname = 'exponential'\ndecay_steps = 10\ndecay_rate = 0.5\n"
          "staircase = true")
          .value();
  EXPECT_EQ(config.optimizer.schedule.decay_rate, 0.5);
  EXPECT_TRUE(config.optimizer.schedule.staircase);
}

TEST(ConfigOverrideTest, ReplacesAndAdds) {
  const Config config =
      ParseMore("[train]\nseed = 1",
                {Set("train.seed=2"), Set("train.seed=3"), Set("optimizer.name=adam"),
                 Set("optimizer.beta1=0.5"), Set("optimizer.schedule.name=cosine"),
                 Set("model.hidden=[10, 20]"), Set("data.path=other folder")})
          .value();
  EXPECT_EQ(config.train.seed, 3);
  EXPECT_EQ(config.optimizer.name, "adam");
  EXPECT_EQ(config.optimizer.beta1, 0.5);
  EXPECT_EQ(config.optimizer.schedule.name, "cosine");
  EXPECT_THAT(config.model.hidden, ElementsAre(10, 20));
  EXPECT_EQ(config.data.path, "other folder");
}

TEST(ConfigOverrideTest, TheTextOfTheConfigurationHoldsThemAndReadsTheSame) {
  const Config config =
      ParseMore("", {Set("train.steps=7"), Set("data.path=a \"b\"\n"), Set("optimizer.name=adam")})
          .value();
  const Config again = ParseConfig(config.text, "again", {}).value();
  EXPECT_EQ(again.train.steps, 7);
  EXPECT_EQ(again.data.path, "a \"b\"\n");
  EXPECT_EQ(again.optimizer.name, "adam");
  EXPECT_EQ(again.text, config.text);
}

TEST(ConfigOverrideTest, StringsNeedNoQuotes) {
  const auto logdir = [](std::string_view value) {
    return ParseMore("", {Set(fmt::format("monitor.logdir={}", value))})->monitor.logdir;
  };
  EXPECT_EQ(logdir("runs/a"), "runs/a");
  EXPECT_EQ(logdir("\"quoted\""), "quoted");
  EXPECT_EQ(logdir("2024"), "2024");
  EXPECT_EQ(logdir("true"), "true");
  EXPECT_EQ(logdir("a=b"), "a=b");
  EXPECT_EQ(logdir("say \"x\" \\ twice"), "say \"x\" \\ twice");
  EXPECT_EQ(logdir("1\nvalue2 = 2"), "1\nvalue2 = 2");
}

TEST(ConfigOverrideTest, ErrorsNameTheFlag) {
  EXPECT_EQ(Error("", {Set("optimizer.lerning_rate=1")}),
            "--set optimizer.lerning_rate=1: unknown key 'optimizer.lerning_rate', did you mean "
            "'learning_rate'?");
  EXPECT_EQ(Error("", {Set("optimiser.learning_rate=1")}),
            "--set optimiser.learning_rate=1: unknown section 'optimiser', did you mean "
            "'optimizer'?");
  EXPECT_EQ(Error("[train]\nseed = 1", {{"--seed -1", "train.seed", "-1"}}),
            "--seed -1: train.seed: found -1, allowed are integers from 0 to 9223372036854775807");
  EXPECT_EQ(Error("", {{"--seed 9223372036854775808", "train.seed", "9223372036854775808"}}),
            "--seed 9223372036854775808: train.seed: found 9223372036854775808, allowed are "
            "integers from 0 to 9223372036854775807");
  EXPECT_EQ(Error("", {Set("train.steps=[1")}),
            "--set train.steps=[1: train.steps: found '[1', allowed are integers from 0 to "
            "1000000000000");
  EXPECT_EQ(Error("", {Set("train.seed.low=1"), Set("train.seed=1"), Set("train.seed.high=1")}),
            "--set train.seed.high=1: 'seed' is a key and not a section");
  for (const char* key : {"seed", "", ".", "train.", ".seed", "train..seed"}) {
    EXPECT_THAT(Error("", {Set(std::string(key) + "=1")}), HasSubstr("expected section.key"));
  }
  EXPECT_THAT(Error("", {Set("data.path=\xff\xfe")}), HasSubstr("no UTF-8 text"));
  EXPECT_EQ(ParseSetFlag("train.seed").status().message(),
            "--set train.seed: expected section.key=value");
}

TEST(ConfigOverrideTest, AnOverrideOfOneLimitReplacesBoth) {
  const std::string both = "[train]\nepochs = 5\nsteps = 1000";
  EXPECT_EQ(ParseMore(both)->train.epochs, 5);
  Config config = ParseMore(both, {Set("train.steps=3")}).value();
  EXPECT_EQ(config.train.steps, 3);
  EXPECT_EQ(config.train.epochs, 0);
  config = ParseMore(both, {Set("train.epochs=2")}).value();
  EXPECT_EQ(config.train.steps, 0);
  EXPECT_EQ(config.train.epochs, 2);
  config = ParseMore("", {Set("train.epochs=2"), Set("train.steps=3")}).value();
  EXPECT_EQ(config.train.steps, 3);
  EXPECT_EQ(config.train.epochs, 2);
  EXPECT_THAT(Error(both, {Set("train.steps=0")}), HasSubstr("the run would never end"));
}

TEST(ConfigLayersTest, EachTypeHasItsKeys) {
  const Config config = Parse(R"(
[model]
name = "layers"
layers = [
  {type = "conv2d", filters = 8, kernel = 3, stride = [2, 1], padding = "valid", bias = false},
  {type = "relu"},
  {type = "max_pool"},
  {type = "avg_pool", kernel = [3, 2], stride = 1, padding = "same"},
  {type = "batch_norm", momentum = 0.9, epsilon = 1e-5},
  {type = "dropout", rate = 0.5},
  {type = "flatten"},
  {type = "activation", activation = "gelu"},
  {type = "dense", units = 10, activation = "tanh"},
  {type = "conv2d", filters = 8, kernel = 1, groups = 2, dilation = 3},
]
[data]
source = "mnist"
path = "data/mnist"
[optimizer]
learning_rate = 0.5
)")
                            .value();
  const std::vector<LayerConfig>& layers = config.model.layers;
  ASSERT_EQ(layers.size(), 10U);
  EXPECT_EQ(layers[0].filters, 8);
  EXPECT_THAT(layers[0].kernel, ElementsAre(3, 3));
  EXPECT_THAT(layers[0].stride, ElementsAre(2, 1));
  EXPECT_EQ(layers[0].padding, "valid");
  EXPECT_FALSE(layers[0].bias);
  EXPECT_EQ(layers[0].where, "f.toml:5:3");
  EXPECT_EQ(layers[1].type, "activation");
  EXPECT_EQ(layers[1].activation, "relu");
  EXPECT_THAT(layers[2].kernel, ElementsAre(2, 2));
  EXPECT_THAT(layers[2].stride, ElementsAre(2, 2));
  EXPECT_EQ(layers[2].padding, "valid");
  EXPECT_THAT(layers[3].kernel, ElementsAre(3, 2));
  EXPECT_THAT(layers[3].stride, ElementsAre(1, 1));
  EXPECT_EQ(layers[4].momentum, 0.9);
  EXPECT_EQ(layers[4].epsilon, 1e-5);
  EXPECT_EQ(layers[5].rate, 0.5);
  EXPECT_EQ(layers[7].activation, "gelu");
  EXPECT_EQ(layers[8].units, 10);
  EXPECT_EQ(layers[8].activation, "tanh");
  EXPECT_EQ(layers[9].groups, 2);
  EXPECT_THAT(layers[9].dilation, ElementsAre(3, 3));
}

TEST(ConfigLayersTest, ErrorsNameTheLayer) {
  const auto error = [](const std::string& layer) {
    return Parse("[model]\nname = 'layers'\n[[model.layers]]\n" + layer).status().message();
  };
  EXPECT_EQ(error("type = 'flatten'\nunits = 5"),
            "f.toml:5:1: unknown key 'model.layers[1].units'");
  EXPECT_EQ(error("type = 'dense'"), "f.toml:3:1: missing key 'model.layers[1].units'");
  EXPECT_EQ(error("units = 5"), "f.toml:3:1: missing key 'model.layers[1].type'");
  EXPECT_THAT(error("type = 'conv2'"),
              HasSubstr("f.toml:4:8: model.layers[1].type: found 'conv2'"));
  EXPECT_THAT(error("type = 'conv2'"), HasSubstr("did you mean 'conv2d'?"));
  EXPECT_EQ(
      error("type = 'max_pool'\nkernel = [1, 2, 3]"),
      "f.toml:5:10: model.layers[1].kernel: found an array of 3, allowed are integers from 1 to "
      "1024 and arrays of two of them");
  EXPECT_THAT(error("type = 'max_pool'\nkernel = [1, 0]"), HasSubstr("found 0, allowed are"));
  EXPECT_EQ(Parse("[model]\nname = 'layers'").status().message(),
            "f.toml:1:1: missing key 'model.layers', the list of [[model.layers]]");
  EXPECT_THAT(Parse("[model]\nname = 'layers'\nlayers = []").status().message(),
              HasSubstr("found no layer"));
  std::string layers;
  std::string hidden;
  for (int i = 0; i < 1001; ++i) {
    layers += "[[model.layers]]\ntype = 'flatten'\n";
    hidden += "1,";
  }
  EXPECT_THAT(Parse("[model]\nname = 'layers'\n" + layers).status().message(),
              HasSubstr("model.layers: found 1001 layers, allowed are at most 1000"));
  EXPECT_THAT(Parse("[model]\nname = 'mlp'\nhidden = [" + hidden + "]").status().message(),
              HasSubstr("model.hidden: found 1001 layers, allowed are at most 1000"));
  EXPECT_THAT(Parse("[model]\nname = 'mlp'\n[[model.layers]]\ntype = 'flatten'").status().message(),
              HasSubstr("expected model.name = 'layers'"));
}

TEST(ConfigFileTest, SyntaxErrorsHaveTheirPlace) {
  EXPECT_THAT(Parse("[model]\nname = \n").status().message(), StartsWith("f.toml:2:8: "));
  EXPECT_THAT(Parse("a = 1\na = 2").status().message(), StartsWith("f.toml:2:"));
  EXPECT_THAT(Parse("a = \"\xff\"").status().message(), StartsWith("f.toml:1:"));
  EXPECT_FALSE(Parse("a = " + std::string(100000, '[')).ok());
}

TEST(ConfigFileTest, LoadsAFileOfBoundedSize) {
  const lockstep::testing::TempFolder folder;
  const std::string path = folder.Path("c.toml");
  ASSERT_TRUE(WriteFileAtomic(path, kMinimal).ok());
  EXPECT_EQ(LoadConfig(path, {})->model.name, "mlp");
  ASSERT_TRUE(WriteFileAtomic(path, std::string(2 << 20, '#')).ok());
  EXPECT_EQ(LoadConfig(path, {}).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(LoadConfig(folder.Path("none"), {}).status().code(), StatusCode::kNotFound);
}

TEST(ConfigTest, TheShippedExamplesAreValid) {
  for (const char* name :
       {"mnist_softmax", "mnist_mlp", "mnist_cnn", "lenet5_mnist", "mnist_layers",
        "resnet18_synthetic", "resnet20_synthetic", "resnet50_synthetic"}) {
    const Result<Config> config =
        LoadConfig(fmt::format("{}/examples/configs/{}.toml", LS_SOURCE_DIR, name), {});
    EXPECT_TRUE(config.ok()) << config.status().ToString();
  }
}

}  // namespace
}  // namespace lockstep::train
