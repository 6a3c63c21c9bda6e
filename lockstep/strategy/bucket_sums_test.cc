#include "lockstep/strategy/bucket_sums.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "lockstep/graph/builder.h"
#include "lockstep/op/catalog.h"
#include "lockstep/op/placeholder.h"

namespace lockstep::strategy {
namespace {

// Numbers whose sum depends on the order of the additions.
float Number(int64_t part, size_t index) {
  return (part % 3 == 0 ? 1.0E8F : 0.37F) * static_cast<float>(1 + part) +
         static_cast<float>(index);
}

// The sum of [begin, end) along the tree over n parts.
float TreeOf(int64_t begin, int64_t end, int64_t n, size_t index) {
  if (begin >= n) {
    return 0;
  }
  if (end - begin == 1) {
    return Number(begin, index);
  }
  const int64_t middle = (begin + end) / 2;
  const float left = TreeOf(begin, middle, n, index);
  return middle >= n ? left : left + TreeOf(middle, end, n, index);
}

class BucketSumsTest : public ::testing::Test {
 protected:
  BucketSumsTest() {
    for (const int64_t elements : {3, 40, 1, 17}) {
      partials_.push_back(op::Placeholder(b_, DType::kFloat32, Shape{elements}, "x"));
    }
  }

  // One step; partials are complete in the given order.
  void Step(BucketSums& sums, int devices, const std::vector<size_t>& order) {
    ASSERT_TRUE(sums.Begin().ok());
    for (int device = 0; device < devices; ++device) {
      const data::BatchRange parts = sums.parts_of(device);
      for (int64_t part = parts.begin; part < parts.begin + parts.count; ++part) {
        std::vector<Tensor> leaf;
        ASSERT_TRUE(sums.TakeLeaf(device, leaf).ok());
        for (size_t i = 0; i < leaf.size(); ++i) {
          ASSERT_TRUE(leaf[i].unique());
          seen_.insert(leaf[i].data());
          std::fill(leaf[i].values<float>().begin(), leaf[i].values<float>().end(),
                    Number(part, i));
        }
        for (const size_t i : order) {
          sums.Complete(device, part, i, leaf);
        }
      }
    }
    ASSERT_TRUE(sums.Finish().ok());
  }

  Graph graph_{op::Catalog()};
  Builder b_{graph_};
  std::vector<Value> partials_;
  // Where leaves were.
  std::set<const void*> seen_;
};

TEST_F(BucketSumsTest, FollowTheTreeWhoeverAddsAndInWhateverBuckets) {
  for (const int64_t parts : {1, 2, 3, 5, 8, 13}) {
    const int64_t power = parts <= 1 ? 1 : parts <= 2 ? 2 : parts <= 4 ? 4 : parts <= 8 ? 8 : 16;
    for (const int devices : {1, 2, 3}) {
      for (const size_t bucket_bytes : {size_t{4}, size_t{256}, size_t{1} << 20}) {
        const auto sums =
            BucketSums::Create(partials_,
                               {.bucket_bytes = bucket_bytes, .parts = parts, .devices = devices})
                .value();
        // The second step has the memory of the first.
        for (const std::vector<size_t>& order :
             {std::vector<size_t>{0, 1, 2, 3}, std::vector<size_t>{3, 1, 0, 2}}) {
          Step(*sums, devices, order);
          for (size_t i = 0; i < partials_.size(); ++i) {
            for (const float sum : sums->total()[i].values<float>()) {
              EXPECT_EQ(sum, TreeOf(0, power, parts, i)) << fmt::format(
                  "{} parts, {} devices, buckets of {}", parts, devices, bucket_bytes);
            }
          }
        }
      }
    }
  }
}

// After the first step the same memory goes round.
TEST_F(BucketSumsTest, MemoryIsUsedAgain) {
  const auto sums =
      BucketSums::Create(partials_, {.bucket_bytes = 256, .parts = 13, .devices = 3}).value();
  std::set<const void*> after_first;
  for (int step = 0; step < 10; ++step) {
    Step(*sums, 3, {0, 1, 2, 3});
    if (step == 0) {
      after_first = seen_;
    }
  }
  EXPECT_EQ(seen_, after_first);
}

}  // namespace
}  // namespace lockstep::strategy
