#include "lockstep/train/config.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <optional>
#include <sstream>
#include <utility>

#include "lockstep/base/file.h"
#include "lockstep/base/quote.h"
#include "lockstep/train/config_reader.h"

namespace lockstep::train {
namespace {

constexpr uint64_t kMaxFileBytes = uint64_t{1} << 20;
constexpr int64_t kMaxSamples = std::numeric_limits<int32_t>::max();
constexpr IntRange kSteps = {0, 1'000'000'000'000};

Result<toml::table> ParseToml(std::string_view text, const std::string& name) {
  try {
    return toml::parse(text, std::string_view(name));
  } catch (const toml::parse_error& error) {
    const toml::source_position place = error.source().begin;
    return InvalidArgument(fmt::format("{}:{}:{}: {}", Shown(name), place.line, place.column,
                                       Shown(error.description())));
  }
}

// The text as a TOML string.
std::string Quote(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (byte < 0x20 || byte == 0x7F) {
      quoted += fmt::format("\\u{:04X}", byte);
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

// A table with the single key "value".
Result<toml::table> ParseOverrideValue(const ConfigOverride& given) {
  Result<toml::table> value = ParseToml("value = " + given.value, given.flag);
  if (value.ok() && value->size() == 1) {
    return value;
  }
  value = ParseToml("value = " + Quote(given.value), given.flag);
  if (!value.ok()) {
    return InvalidArgument(
        fmt::format("{}: not a TOML value and no UTF-8 text either", given.flag));
  }
  return value;
}

Status ApplyOverride(const ConfigOverride& given, toml::table& root) {
  std::vector<std::string_view> names;
  for (std::string_view rest = given.key; true;) {
    const size_t dot = rest.find('.');
    names.push_back(rest.substr(0, dot));
    if (names.back().empty()) {
      names.clear();
      break;
    }
    if (dot == std::string_view::npos) {
      break;
    }
    rest.remove_prefix(dot + 1);
  }
  if (names.size() < 2) {
    return InvalidArgument(
        fmt::format("{}: key {}, expected section.key", given.flag, Quoted(given.key)));
  }
  LS_ASSIGN_OR_RETURN(toml::table value, ParseOverrideValue(given));
  toml::table* table = &root;
  for (size_t i = 0; i + 1 < names.size(); ++i) {
    toml::node* next = table->get(names[i]);
    if (next == nullptr) {
      next = &table->insert(names[i], toml::table()).first->second;
    }
    if (!next->is_table()) {
      return InvalidArgument(
          fmt::format("{}: {} is a key and not a section", given.flag, Quoted(names[i])));
    }
    table = next->as_table();
  }
  value.get("value")->visit(
      [&](auto& node) { table->insert_or_assign(names.back(), std::move(node)); });
  return OkStatus();
}

// An override of steps or epochs says when to stop, whatever the file says about the other.
void DropOtherLimit(std::span<const ConfigOverride> overrides, toml::table& root) {
  bool steps = false;
  bool epochs = false;
  for (const ConfigOverride& given : overrides) {
    steps = steps || given.key == "train.steps";
    epochs = epochs || given.key == "train.epochs";
  }
  toml::table* train = root["train"].as_table();
  if (train != nullptr && steps != epochs) {
    train->erase(steps ? "epochs" : "steps");
  }
}

void ReadData(SectionReader& reader, DataConfig& data) {
  constexpr std::array<std::string_view, 3> kSources = {"mnist", "idx", "synthetic"};
  reader.Require("source", fmt::format(", allowed are {}", fmt::join(kSources, ", ")));
  reader.Choice("source", kSources, data.source);
  const std::string reason = fmt::format("has no effect for data.source = '{}'", data.source);
  if (data.source == "synthetic") {
    reader.Refuse("path", reason);
    reader.Int("train_samples", {1, kMaxSamples}, data.train_samples);
    reader.Int("test_samples", {0, kMaxSamples}, data.test_samples);
  } else {
    reader.Require("path", fmt::format(" for data.source = '{}'", data.source));
    reader.Text("path", data.path);
    reader.Refuse("train_samples", reason);
    reader.Refuse("test_samples", reason);
  }
  reader.Bool("shuffle", data.shuffle);
  reader.Finish();
}

void ReadClipping(SectionReader& reader, TrainConfig& train) {
  reader.Real("clip_value", kNotNegative, train.clip_value);
  reader.Real("clip_norm", kNotNegative, train.clip_norm);
  reader.Real("clip_global_norm", kNotNegative, train.clip_global_norm);
  const bool by_norm = train.clip_norm > 0;
  const bool by_global_norm = train.clip_global_norm > 0;
  if (train.clip_value > 0 && (by_norm || by_global_norm)) {
    reader.FailAt("clip_value", "cannot be combined with clip_norm or clip_global_norm");
  }
  if (by_norm && by_global_norm) {
    reader.FailAt("clip_norm", "cannot be combined with clip_global_norm");
  }
}

void ReadTrain(SectionReader& reader, TrainConfig& train) {
  constexpr std::array<std::string_view, 2> kPrecisions = {"fp32", "bf16"};
  constexpr IntRange kParts = {1, 65536};
  constexpr IntRange kMergeSteps = {1, 1'000'000'000'000};
  reader.Int("global_batch", {1, kMaxSamples}, train.global_batch);
  reader.Int("epochs", kSteps, train.epochs);
  reader.Int("steps", kSteps, train.steps);
  if (!reader.Has("epochs") && !reader.Has("steps")) {
    train.epochs = 1;
  } else if (train.epochs == 0 && train.steps == 0) {
    reader.FailAt(reader.Has("steps") ? "steps" : "epochs",
                  "found 0 and no other limit, the run would never end");
  }
  reader.Int("seed", {0, std::numeric_limits<int64_t>::max()}, train.seed);
  reader.Int("replicas", kParts, train.replicas);
  reader.Choice("precision", kPrecisions, train.precision);
  reader.Int("eval_batch", {1, kMaxSamples}, train.eval_batch);
  reader.Int("log_every_steps", kSteps, train.log_every_steps);
  reader.Real("label_smoothing", kBelowOne, train.label_smoothing);
  reader.Int("gradient_accumulation", kParts, train.gradient_accumulation);
  reader.Int("merge_steps", kMergeSteps, train.merge_steps);
  reader.Real("outer_learning_rate", kPositive, train.outer_learning_rate);
  reader.Real("outer_momentum", kBelowOne, train.outer_momentum);
  reader.Bool("outer_nesterov", train.outer_nesterov);
  reader.Int("check_replicas", kSteps, train.check_replicas);
  ReadClipping(reader, train);
  reader.Finish();
}

void ReadRest(SectionReader& root, ConfigContext& context, Config& config) {
  constexpr std::array<std::string_view, 1> kModes = {"sync"};
  constexpr std::array<std::string_view, 2> kLaterModes = {"bounded", "async"};
  constexpr RealRange kTimeout = {0, false, 1e6, true, "seconds greater than 0 and at most 10^6"};
  constexpr RealRange kHeartbeat = {0.01, true, 1e6, true, "seconds from 0.01 to 10^6"};
  constexpr std::array<std::string_view, 6> kAlgorithms = {
      "auto", "gather", "pairwise", "halving_doubling", "two_level", "shared"};
  constexpr std::array<std::string_view, 4> kTransports = {"auto", "shm", "ucx", "grpc"};
  constexpr int64_t kMaxRestarts = 1'000'000;
  SectionReader cluster(root.Table("cluster"), "cluster", context);
  cluster.Choice("mode", kModes, config.cluster.mode, kLaterModes);
  cluster.Int("max_restarts", {0, kMaxRestarts}, config.cluster.max_restarts);
  cluster.Choice("transport", kTransports, config.cluster.transport);
  cluster.Choice("algorithm", kAlgorithms, config.cluster.algorithm);
  cluster.Int("bucket_bytes", {4, int64_t{1} << 40}, config.cluster.bucket_bytes);
  cluster.Real("start_timeout", kTimeout, config.cluster.start_timeout);
  cluster.Real("step_timeout", kTimeout, config.cluster.step_timeout);
  cluster.Real("heartbeat", kHeartbeat, config.cluster.heartbeat);
  cluster.Finish();
  SectionReader checkpoint(root.Table("checkpoint"), "checkpoint", context);
  checkpoint.Int("every_steps", kSteps, config.checkpoint.every_steps);
  checkpoint.Text("dir", config.checkpoint.dir);
  checkpoint.Finish();
  SectionReader monitor(root.Table("monitor"), "monitor", context);
  monitor.Text("logdir", config.monitor.logdir);
  monitor.Finish();
}

Result<Config> ReadConfig(const toml::table& table, ConfigContext& context) {
  Config config;
  SectionReader root(&table, "", context);
  SectionReader model(root.Table("model"), "model", context);
  SectionReader data(root.Table("data"), "data", context);
  SectionReader train(root.Table("train"), "train", context);
  SectionReader optimizer(root.Table("optimizer"), "optimizer", context);
  // Unknown sections come first: a misspelt one would otherwise show as missing keys.
  for (const std::string_view name : {"cluster", "checkpoint", "monitor"}) {
    root.Table(name);
  }
  root.Finish();
  ReadModel(model, context, config.model);
  ReadData(data, config.data);
  ReadTrain(train, config.train);
  ReadOptimizer(optimizer, context, config.optimizer);
  ReadRest(root, context, config);
  if (config.data.source == "synthetic") {
    model.Require("input_shape", " for data.source = 'synthetic'");
    model.Require("num_classes", " for data.source = 'synthetic'");
  }
  LS_TRY(context.status);
  config.given = std::move(context.given);
  return config;
}

}  // namespace

Result<ConfigOverride> ParseSetFlag(std::string_view argument) {
  const size_t equals = argument.find('=');
  if (equals == std::string_view::npos) {
    return InvalidArgument(fmt::format("--set {}: expected section.key=value", Shown(argument)));
  }
  return ConfigOverride{fmt::format("--set {}", Shown(argument)),
                        std::string(argument.substr(0, equals)),
                        std::string(argument.substr(equals + 1))};
}

Result<Config> ParseConfig(std::string_view text, const std::string& name,
                           std::span<const ConfigOverride> overrides) {
  LS_ASSIGN_OR_RETURN(toml::table root, ParseToml(text, name));
  for (const ConfigOverride& given : overrides) {
    LS_TRY(ApplyOverride(given, root));
  }
  DropOtherLimit(overrides, root);
  ConfigContext context;
  context.file = name;
  context.overrides = overrides;
  LS_ASSIGN_OR_RETURN(Config config, ReadConfig(root, context));
  std::ostringstream toml;
  toml << root << '\n';
  config.text = toml.str();
  return config;
}

Result<Config> LoadConfig(const std::string& path, std::span<const ConfigOverride> overrides) {
  LS_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxFileBytes));
  return ParseConfig(text, path, overrides);
}

}  // namespace lockstep::train
