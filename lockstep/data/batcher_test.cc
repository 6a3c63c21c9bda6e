#include "lockstep/data/batcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lockstep::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Sample i has the feature i and the label i.
Split Numbers(int64_t count) {
  std::vector<float> features(static_cast<size_t>(count));
  std::vector<int32_t> labels(static_cast<size_t>(count));
  std::iota(features.begin(), features.end(), 0.0F);
  std::iota(labels.begin(), labels.end(), 0);
  return Split::Create("numbers", Tensor::From<float>(Shape{count, 1}, features).value(),
                       Tensor::From<int32_t>(Shape{count}, labels).value(), count)
      .value();
}

Batcher MakeBatcher(const Split& split, int64_t global_batch, int replicas, bool shuffle = true) {
  return Batcher::Create(
             split,
             {.seed = 7, .global_batch = global_batch, .replicas = replicas, .shuffle = shuffle})
      .value();
}

// The samples of one epoch, in the order of steps and replicas.
std::vector<uint32_t> Epoch(const Batcher& batcher, int replicas) {
  std::vector<uint32_t> all;
  for (int64_t step = 0; step < batcher.steps_per_epoch(); ++step) {
    for (int replica = 0; replica < replicas; ++replica) {
      const std::span<const uint32_t> part = batcher.Indices(step, replica);
      all.insert(all.end(), part.begin(), part.end());
    }
  }
  return all;
}

TEST(BatcherTest, EverySampleOncePerEpochInAnOrderIndependentOfReplicas) {
  for (const int64_t samples : {1, 2, 3, 7, 8, 64, 100, 101}) {
    const Split split = Numbers(samples);
    for (const int64_t global_batch : {1, 2, 3, 5, 8, 100, 101, 1000}) {
      std::vector<uint32_t> expected(static_cast<size_t>(samples));
      ShuffleOrder(7, 0, expected);
      for (const int replicas : {1, 2, 3, 4, 7, 150}) {
        EXPECT_EQ(Epoch(MakeBatcher(split, global_batch, replicas), replicas), expected)
            << samples << " " << global_batch << " " << replicas;
      }
      std::sort(expected.begin(), expected.end());
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_EQ(expected[i], i);
      }
    }
  }
}

TEST(BatcherTest, ReplicasGetNearlyEqualParts) {
  for (int64_t count = 0; count < 40; ++count) {
    for (int replicas = 1; replicas < 12; ++replicas) {
      int64_t begin = 100;
      int64_t smallest = count;
      int64_t largest = 0;
      for (int replica = 0; replica < replicas; ++replica) {
        const BatchRange range = ReplicaRange({100, count}, replica, replicas);
        ASSERT_EQ(range.begin, begin);
        begin += range.count;
        smallest = std::min(smallest, range.count);
        largest = std::max(largest, range.count);
      }
      ASSERT_EQ(begin, 100 + count);
      ASSERT_LE(largest - smallest, 1);
    }
  }
}

TEST(BatcherTest, TheLastStepKeepsWhatIsLeft) {
  const Split split = Numbers(10);
  const Batcher batcher = MakeBatcher(split, 4, 4);
  EXPECT_EQ(batcher.steps_per_epoch(), 3);
  EXPECT_EQ(batcher.step_samples(0), 4);
  EXPECT_EQ(batcher.step_samples(2), 2);
  EXPECT_EQ(batcher.replica_samples(2, 0), 0);
  EXPECT_EQ(batcher.replica_samples(2, 1), 1);
  EXPECT_EQ(batcher.max_replica_samples(), 1);
  EXPECT_EQ(MakeBatcher(split, 7, 2).max_replica_samples(), 4);
  // Never more than there are.
  EXPECT_EQ(MakeBatcher(split, 2'147'483'647, 3).max_replica_samples(), 4);
}

TEST(BatcherTest, EveryEpochAndSeedHasItsOwnOrder) {
  const Split split = Numbers(50);
  Batcher batcher = MakeBatcher(split, 8, 1);
  const std::vector<uint32_t> first = Epoch(batcher, 1);
  batcher.StartEpoch(1);
  const std::vector<uint32_t> second = Epoch(batcher, 1);
  EXPECT_NE(second, first);
  batcher.StartEpoch(0);
  EXPECT_EQ(Epoch(batcher, 1), first);
  std::vector<uint32_t> other_seed(50);
  ShuffleOrder(8, 0, other_seed);
  EXPECT_NE(other_seed, first);
}

// Every sample must come to every position equally often: chi-square over 20,000 epochs of 6.
TEST(BatcherTest, TheShuffleIsUniform) {
  constexpr int kSamples = 6;
  constexpr int kEpochs = 20000;
  std::vector<int> counts(kSamples * kSamples);
  std::vector<uint32_t> order(kSamples);
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    ShuffleOrder(3, epoch, order);
    for (size_t position = 0; position < kSamples; ++position) {
      ++counts[position * kSamples + order[position]];
    }
  }
  double chi_square = 0;
  constexpr double kExpected = static_cast<double>(kEpochs) / kSamples;
  for (const int count : counts) {
    chi_square += std::pow(count - kExpected, 2) / kExpected;
  }
  // 25 degrees of freedom: above 52.6 once in a thousand seeds. Far below would be wrong as well.
  EXPECT_LT(chi_square, 52.6);
  EXPECT_GT(chi_square, 8.0);
}

TEST(BatcherTest, WithoutShufflingTheStoredOrderStays) {
  const Split split = Numbers(5);
  Batcher batcher = MakeBatcher(split, 2, 1, /*shuffle=*/false);
  batcher.StartEpoch(3);
  EXPECT_THAT(Epoch(batcher, 1), ElementsAre(0, 1, 2, 3, 4));
}

TEST(BatcherTest, FillsBuffers) {
  const Split split = Numbers(10);
  const Batcher batcher = MakeBatcher(split, 4, 2);
  std::vector<float> features(3, -1);
  std::vector<int32_t> labels(3, -1);
  ASSERT_EQ(batcher.Fill(1, 1, features, labels).value(), 2);
  const std::span<const uint32_t> indices = batcher.Indices(1, 1);
  EXPECT_THAT(features, ElementsAre(indices[0], indices[1], -1));
  EXPECT_THAT(labels, ElementsAre(indices[0], indices[1], -1));
}

TEST(BatcherTest, FillRefusesWhatDoesNotExistOrFit) {
  const Split split = Numbers(10);
  const Batcher batcher = MakeBatcher(split, 4, 2);
  std::vector<float> features(2);
  std::vector<int32_t> labels(2);
  EXPECT_EQ(batcher.Fill(3, 0, features, labels).status().message(),
            "batches: step 3 of replica 0, allowed are 0 to 2 and 0 to 1");
  EXPECT_FALSE(batcher.Fill(-1, 0, features, labels).ok());
  EXPECT_FALSE(batcher.Fill(0, 2, features, labels).ok());
  EXPECT_EQ(batcher.Fill(0, 0, std::span(features).first(1), labels).status().message(),
            "batches: buffers of 1 features and 2 labels, step 0 of replica 0 needs 2 and 2");
  EXPECT_FALSE(batcher.Fill(0, 0, features, std::span(labels).first(1)).ok());
}

TEST(BatcherTest, RefusesOptionsOutOfRange) {
  const Split split = Numbers(3);
  EXPECT_THAT(Batcher::Create(split, {.global_batch = 0}).status().message(),
              HasSubstr("global batch 0, allowed are 1 and more"));
  EXPECT_THAT(Batcher::Create(split, {.replicas = 0}).status().message(),
              HasSubstr("0 replicas, allowed are 1 and more"));
  EXPECT_THAT(Batcher::Create(Split(), {}).status().message(), HasSubstr("no samples"));
  const Batcher batcher = MakeBatcher(split, INT64_MAX, INT32_MAX);
  EXPECT_EQ(batcher.steps_per_epoch(), 1);
  EXPECT_EQ(batcher.max_replica_samples(), 1);
}

}  // namespace
}  // namespace lockstep::data
