#include "lockstep/train/summary.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "lockstep/base/file.h"

namespace lockstep::train {
namespace {

template <class T>
void AddIfKnown(nlohmann::ordered_json& json, const char* key, const std::optional<T>& value) {
  if (value.has_value()) {
    json[key] = *value;
  }
}

}  // namespace

std::string SummaryJson(const Summary& summary) {
  nlohmann::ordered_json json;
  json["model"] = summary.model;
  json["strategy"] = summary.strategy;
  json["workers"] = summary.workers;
  json["ps"] = summary.ps;
  json["devices"] = summary.devices;
  json["replicas"] = summary.replicas;
  json["global_batch"] = summary.global_batch;
  json["steps"] = summary.steps;
  json["epochs"] = summary.epochs;
  json["examples"] = summary.examples;
  json["final_loss"] = summary.final_loss;
  json["train_accuracy"] = summary.train_accuracy;
  json["test_accuracy"] = summary.test_accuracy;
  json["examples_per_second"] = summary.examples_per_second;
  json["step_ms_p50"] = summary.step_ms_p50;
  json["step_ms_p95"] = summary.step_ms_p95;
  json["first_step_seconds"] = summary.first_step_seconds;
  json["wall_seconds"] = summary.wall_seconds;
  json["peak_rss_bytes"] = summary.peak_rss_bytes;
  json["params_sha256"] = summary.params_sha256;
  json["state_sha256"] = summary.state_sha256;
  json["restarts"] = summary.restarts;
  AddIfKnown(json, "applied_gradients", summary.applied_gradients);
  AddIfKnown(json, "dropped_gradients", summary.dropped_gradients);
  AddIfKnown(json, "staleness_mean", summary.staleness_mean);
  AddIfKnown(json, "staleness_max", summary.staleness_max);
  AddIfKnown(json, "sync_rounds", summary.sync_rounds);
  constexpr int kIndent = 2;
  // Names come from files: what is not UTF-8 must not throw.
  return json.dump(kIndent, ' ', /*ensure_ascii=*/false,
                   nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

bool IsSummary(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto has_text = [&json](const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_string();
  };
  return json.is_object() && has_text("model") && has_text("strategy") && has_text("params_sha256");
}

double Percentile(std::span<const double> values, double percent) {
  LS_CHECK(percent >= 0 && percent <= 100);
  if (values.empty()) {
    return Summary::kUnknown;
  }
  std::vector<double> sorted(values.begin(), values.end());
  const double position = percent / 100 * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(position);
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(below);
  std::nth_element(sorted.begin(), middle, sorted.end());
  if (below + 1 == sorted.size()) {
    return *middle;
  }
  const double next = *std::min_element(middle + 1, sorted.end());
  return *middle + (position - static_cast<double>(below)) * (next - *middle);
}

uint64_t PeakRssBytes() {
  constexpr uint64_t kMaxBytes = 1 << 20;
  constexpr std::string_view kKey = "VmHWM:";
  const Result<std::string> status = ReadFile("/proc/self/status", kMaxBytes);
  if (!status.ok()) {
    return 0;
  }
  const size_t found = status->find(kKey);
  if (found == std::string::npos) {
    return 0;
  }
  const size_t digits = status->find_first_of("0123456789", found);
  uint64_t kibibytes = 0;
  if (digits != std::string::npos) {
    std::from_chars(status->data() + digits, status->data() + status->size(), kibibytes);
  }
  return kibibytes * 1024;
}

}  // namespace lockstep::train
