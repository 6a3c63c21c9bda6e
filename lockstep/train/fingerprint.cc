#include "lockstep/train/fingerprint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "lockstep/base/quote.h"

namespace lockstep::train {
namespace {

// Sorted by name, which also bounds the time that a hostile one takes.
using Json = nlohmann::json;

constexpr std::string_view kThreads = "--threads-per-device";
constexpr std::string_view kPrecision = "train.precision";
constexpr std::string_view kSeed = "train.seed";
constexpr std::string_view kDataSha256 = "SHA-256 of the training data";
constexpr std::string_view kMadeUp = "made up from the seed";
constexpr std::string_view kModelPrefix = "model.";
constexpr std::string_view kLayerPrefix = "model.layers[";

// Values as they are written in a configuration.
std::string Text(const std::string& value) {
  return Json(value).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string Text(int64_t value) {
  return fmt::format("{}", value);
}

// The shortest digits that give the same number back.
std::string Text(double value) {
  return fmt::format("{}", value);
}

std::string Text(bool value) {
  return value ? "true" : "false";
}

template <class T>
std::string Text(const std::vector<T>& values) {
  std::vector<std::string> texts;
  for (const T& value : values) {
    texts.push_back(Text(value));
  }
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

std::string Text(const std::array<int64_t, 2>& pair) {
  return fmt::format("[{}, {}]", pair[0], pair[1]);
}

// What differs from a layer of which nothing is said: the rest is not of its type.
std::string LayerText(const LayerConfig& layer) {
  const LayerConfig plain;
  std::string text = layer.type;
  const auto add = [&text](std::string_view key, const std::string& value,
                           const std::string& usual) {
    if (value != usual) {
      text += fmt::format(", {} {}", key, value);
    }
  };
  add("filters", Text(layer.filters), Text(plain.filters));
  add("kernel", Text(layer.kernel), Text(plain.kernel));
  add("stride", Text(layer.stride), Text(plain.stride));
  add("padding", layer.padding, plain.padding);
  add("dilation", Text(layer.dilation), Text(plain.dilation));
  add("groups", Text(layer.groups), Text(plain.groups));
  add("units", Text(layer.units), Text(plain.units));
  add("activation", layer.activation, plain.activation);
  add("bias", Text(layer.bias), Text(plain.bias));
  add("rate", Text(layer.rate), Text(plain.rate));
  add("momentum", Text(layer.momentum), Text(plain.momentum));
  add("epsilon", Text(layer.epsilon), Text(plain.epsilon));
  return text;
}

void AddModel(const ModelConfig& model, const RunFacts& facts, Json& fields) {
  fields["model.name"] = Text(model.name);
  fields["model.num_classes"] = Text(facts.num_classes);
  fields["model.input_shape"] = facts.sample_shape.ToString();
  fields["model.hidden"] = Text(model.hidden);
  fields["model.dropout"] = Text(model.dropout);
  for (size_t i = 0; i < model.layers.size(); ++i) {
    fields[fmt::format("{}{}]", kLayerPrefix, i)] = LayerText(model.layers[i]);
  }
}

void AddTrain(const Config& config, const RunFacts& facts, Json& fields) {
  const TrainConfig& train = config.train;
  fields["data.shuffle"] = Text(config.data.shuffle);
  fields["training samples"] = Text(facts.train_samples);
  fields[std::string(kDataSha256)] =
      facts.data_sha256.empty() ? std::string(kMadeUp) : facts.data_sha256;
  fields["train.global_batch"] = Text(train.global_batch);
  fields[std::string(kSeed)] = Text(train.seed);
  // A step is cut into so many parts; how they are called makes no difference.
  fields["train.replicas * train.gradient_accumulation"] =
      Text(train.replicas * train.gradient_accumulation);
  fields[std::string(kPrecision)] = Text(train.precision);
  fields["train.label_smoothing"] = Text(train.label_smoothing);
  fields["train.clip_value"] = Text(train.clip_value);
  fields["train.clip_norm"] = Text(train.clip_norm);
  fields["train.clip_global_norm"] = Text(train.clip_global_norm);
  if (facts.local_sgd) {
    fields["strategy"] = Text(std::string("local_sgd"));
    fields["train.merge_steps"] = Text(train.merge_steps);
    fields["train.outer_learning_rate"] = Text(train.outer_learning_rate);
    fields["train.outer_momentum"] = Text(train.outer_momentum);
    fields["train.outer_nesterov"] = Text(train.outer_nesterov);
  }
}

void AddOptimizer(const OptimizerConfig& optimizer, Json& fields) {
  fields["optimizer.name"] = Text(optimizer.name);
  fields["optimizer.learning_rate"] = Text(optimizer.learning_rate);
  fields["optimizer.momentum"] = Text(optimizer.momentum);
  fields["optimizer.nesterov"] = Text(optimizer.nesterov);
  fields["optimizer.beta1"] = Text(optimizer.beta1);
  fields["optimizer.beta2"] = Text(optimizer.beta2);
  fields["optimizer.rho"] = Text(optimizer.rho);
  fields["optimizer.epsilon"] = Text(optimizer.epsilon);
  fields["optimizer.centered"] = Text(optimizer.centered);
  fields["optimizer.initial_accumulator"] = Text(optimizer.initial_accumulator);
  fields["optimizer.trust_coefficient"] = Text(optimizer.trust_coefficient);
  fields["optimizer.weight_decay"] = Text(optimizer.weight_decay);
  fields["optimizer.l2"] = Text(optimizer.l2);
  fields["optimizer.decay_exclude"] = Text(optimizer.decay_exclude);
}

void AddSchedule(const ScheduleConfig& schedule, int64_t planned_steps, Json& fields) {
  const std::string prefix = "optimizer.schedule.";
  int64_t decay_steps = schedule.decay_steps;
  if (decay_steps == 0 && (schedule.name == "cosine" || schedule.name == "polynomial")) {
    decay_steps = std::max<int64_t>(planned_steps - schedule.warmup_steps, 1);
  }
  fields[prefix + "name"] = Text(schedule.name);
  fields[prefix + "boundaries"] = Text(schedule.boundaries);
  fields[prefix + "values"] = Text(schedule.values);
  fields[prefix + "decay_steps"] = Text(decay_steps);
  fields[prefix + "decay_rate"] = Text(schedule.decay_rate);
  fields[prefix + "staircase"] = Text(schedule.staircase);
  fields[prefix + "power"] = Text(schedule.power);
  fields[prefix + "end_learning_rate"] = Text(schedule.end_learning_rate);
  fields[prefix + "warmup_steps"] = Text(schedule.warmup_steps);
}

// The fields of a fingerprint; null if it is none.
Json Parse(std::string_view text) {
  Json fields = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const bool valid =
      fields.is_object() && std::all_of(fields.begin(), fields.end(),
                                        [](const Json& value) { return value.is_string(); });
  return valid ? fields : Json();
}

// LayerText with what it leaves out, where that is not the default of the layer's type.
std::string ShownLayer(std::string text) {
  struct LeftOut {
    std::string_view type, key, value;
  };

  constexpr LeftOut kLeftOut[] = {
      {"max_pool", "stride", "[1, 1]"}, {"max_pool", "padding", "same"},
      {"avg_pool", "stride", "[1, 1]"}, {"avg_pool", "padding", "same"},
      {"dropout", "rate", "0"},         {"activation", "activation", "none"},
  };
  const std::string type = text.substr(0, text.find(','));
  for (const LeftOut& part : kLeftOut) {
    if (type == part.type && text.find(fmt::format(", {} ", part.key)) == std::string::npos) {
      text += fmt::format(", {} {}", part.key, part.value);
    }
  }
  return text;
}

std::string ValueOf(const Json& fields, const std::string& name) {
  const auto found = fields.find(name);
  if (found == fields.end()) {
    return "not there";
  }
  const auto& text = found->get_ref<const std::string&>();
  const bool is_layer = name.compare(0, kLayerPrefix.size(), kLayerPrefix) == 0;
  return Shown(is_layer ? ShownLayer(text) : text, 200);
}

bool HasValue(const Json& fields, std::string_view name, std::string_view value) {
  const auto found = fields.find(std::string(name));
  return found != fields.end() && found->get<std::string>() == value;
}

struct Fingerprints {
  Json before;
  Json now;
};

Result<Fingerprints> ParseBoth(std::string_view stored, std::string_view current) {
  Fingerprints both{Parse(stored), Parse(current)};
  if (both.before.is_null() || both.now.is_null()) {
    return FailedPrecondition(
        "the checkpoint does not say with which settings it was made, as those of older versions");
  }
  return both;
}

// A name with the place of a layer apart, so that 10 comes after 9: {"model.layers[", 9}.
std::pair<std::string_view, int64_t> OrderOf(const std::string& name) {
  int64_t place = 0;
  if (name.compare(0, kLayerPrefix.size(), kLayerPrefix) != 0) {
    return {name, place};
  }
  std::from_chars(name.data() + kLayerPrefix.size(), name.data() + name.size(), place);
  return {kLayerPrefix, place};
}

// Layers are stored by their index, and counted from 1 in messages, as in the names of variables.
std::string ShownName(const std::string& name) {
  const auto [prefix, place] = OrderOf(name);
  return prefix == kLayerPrefix ? LayerName(place) : Shown(name, 100);
}

std::vector<FingerprintDifference> AllDifferences(const Fingerprints& both,
                                                  const FingerprintSides& sides) {
  std::vector<FingerprintDifference> differences;
  const auto add = [&](const std::string& name) {
    differences.push_back(
        {name, fmt::format("{} is {} {}, {} {}", ShownName(name), ValueOf(both.before, name),
                           sides.stored, ValueOf(both.now, name), sides.current)});
  };
  for (const auto& [name, value] : both.now.items()) {
    const auto found = both.before.find(name);
    if (found == both.before.end() || *found != value) {
      add(name);
    }
  }
  for (const auto& [name, value] : both.before.items()) {
    if (!both.now.contains(name)) {
      add(name);
    }
  }
  std::sort(differences.begin(), differences.end(),
            [](const FingerprintDifference& a, const FingerprintDifference& b) {
              return OrderOf(a.name) < OrderOf(b.name);
            });
  return differences;
}

}  // namespace

std::string MakeFingerprint(const Config& config, const RunFacts& facts) {
  Json fields = Json::object();
  AddModel(config.model, facts, fields);
  AddTrain(config, facts, fields);
  AddOptimizer(config.optimizer, fields);
  AddSchedule(config.optimizer.schedule, facts.planned_steps, fields);
  fields[std::string(kThreads)] = Text(int64_t{facts.threads_per_device});
  return fields.dump();
}

Result<FingerprintDifferences> CompareFingerprints(std::string_view stored,
                                                   std::string_view current,
                                                   const FingerprintSides& sides) {
  LS_ASSIGN_OR_RETURN(const Fingerprints both, ParseBoth(stored, current));
  FingerprintDifferences differences;
  for (FingerprintDifference& difference : AllDifferences(both, sides)) {
    auto& kind = difference.name == kThreads ? differences.rounding : differences.settings;
    kind.push_back(std::move(difference));
  }
  return differences;
}

Result<FingerprintDifferences> CompareModels(std::string_view stored, std::string_view current,
                                             const FingerprintSides& sides) {
  LS_ASSIGN_OR_RETURN(const Fingerprints both, ParseBoth(stored, current));
  const bool made_up =
      HasValue(both.before, kDataSha256, kMadeUp) && HasValue(both.now, kDataSha256, kMadeUp);
  FingerprintDifferences differences;
  for (FingerprintDifference& difference : AllDifferences(both, sides)) {
    if (difference.name.substr(0, kModelPrefix.size()) == kModelPrefix) {
      differences.settings.push_back(std::move(difference));
    } else if (difference.name == kPrecision) {
      differences.rounding.push_back(std::move(difference));
    } else if (difference.name == kSeed && made_up) {
      differences.made_up_data.push_back(std::move(difference));
    }
  }
  return differences;
}

}  // namespace lockstep::train
