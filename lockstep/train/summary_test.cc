#include "lockstep/train/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

namespace lockstep::train {
namespace {

using ::testing::HasSubstr;

TEST(SummaryTest, HasExactlyTheKeysOfTheContract) {
  const auto json = nlohmann::ordered_json::parse(SummaryJson(Summary()));
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) {
    keys.push_back(key);
  }
  EXPECT_EQ(keys, (std::vector<std::string>{"model",
                                            "strategy",
                                            "workers",
                                            "ps",
                                            "devices",
                                            "replicas",
                                            "global_batch",
                                            "steps",
                                            "epochs",
                                            "examples",
                                            "final_loss",
                                            "train_accuracy",
                                            "test_accuracy",
                                            "examples_per_second",
                                            "step_ms_p50",
                                            "step_ms_p95",
                                            "first_step_seconds",
                                            "wall_seconds",
                                            "peak_rss_bytes",
                                            "params_sha256",
                                            "state_sha256",
                                            "restarts"}));
}

TEST(SummaryTest, ValuesComeBack) {
  Summary summary;
  summary.model = "mnist_cnn";
  summary.global_batch = 64;
  summary.final_loss = 0.1;
  summary.peak_rss_bytes = uint64_t{1} << 40;
  summary.staleness_mean = 1.5;
  summary.sync_rounds = 3;
  const auto json = nlohmann::json::parse(SummaryJson(summary));
  EXPECT_EQ(json["model"], "mnist_cnn");
  EXPECT_EQ(json["global_batch"], 64);
  EXPECT_EQ(json["final_loss"].get<double>(), 0.1);
  EXPECT_EQ(json["peak_rss_bytes"], uint64_t{1} << 40);
  EXPECT_EQ(json["staleness_mean"], 1.5);
  EXPECT_EQ(json["sync_rounds"], 3);
  EXPECT_FALSE(json.contains("applied_gradients"));
}

TEST(SummaryTest, WhatIsNoNumberIsNull) {
  Summary summary;
  summary.final_loss = std::numeric_limits<double>::infinity();
  const auto json = nlohmann::json::parse(SummaryJson(summary));
  EXPECT_TRUE(json["final_loss"].is_null());
  EXPECT_TRUE(json["test_accuracy"].is_null());
}

TEST(SummaryTest, NamesThatAreNotUtf8DoNotStopIt) {
  Summary summary;
  summary.model = "caf\xe9";
  EXPECT_THAT(SummaryJson(summary), HasSubstr("caf\xef\xbf\xbd"));
}

TEST(SummaryTest, IsKnownAgain) {
  EXPECT_TRUE(IsSummary(SummaryJson(Summary())));
  // Of a version with other numbers.
  EXPECT_TRUE(IsSummary(R"({"model": "a", "strategy": "b", "params_sha256": "", "new": 1})"));
  for (const char* other : {"", "{", "1", "null", "[]", "{}", R"(["model", "strategy"])",
                            R"({"model": 1, "strategy": "b", "params_sha256": "c"})"}) {
    EXPECT_FALSE(IsSummary(other)) << other;
  }
}

TEST(PercentileTest, InterpolatesAsNumPyDoes) {
  const std::array<double, 4> values = {4, 1, 3, 2};
  EXPECT_DOUBLE_EQ(Percentile(values, 0), 1);
  EXPECT_DOUBLE_EQ(Percentile(values, 50), 2.5);
  EXPECT_DOUBLE_EQ(Percentile(values, 95), 3.85);
  EXPECT_DOUBLE_EQ(Percentile(values, 100), 4);
  EXPECT_DOUBLE_EQ(Percentile(std::array<double, 1>{7}, 95), 7);
  EXPECT_TRUE(std::isnan(Percentile({}, 50)));
}

TEST(PeakRssTest, GrowsWithWhatIsTouched) {
  constexpr size_t kBytes = size_t{64} << 20;
  const uint64_t before = PeakRssBytes();
  ASSERT_GT(before, 0U);
  const std::vector<char> block(kBytes, 'x');
  ASSERT_EQ(block[kBytes - 1], 'x');
  EXPECT_GE(PeakRssBytes(), kBytes);
}

}  // namespace
}  // namespace lockstep::train
