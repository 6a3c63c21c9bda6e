#include "lockstep/data/synthetic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace lockstep::data {
namespace {

using ::testing::HasSubstr;

SyntheticOptions SmallImages() {
  SyntheticOptions options;
  options.sample_shape = Shape{8, 8, 3};
  options.num_classes = 4;
  options.train_samples = 80;
  options.test_samples = 40;
  return options;
}

TEST(SyntheticTest, HasTheShapeAndBalancedClasses) {
  const Dataset dataset = MakeSynthetic(SmallImages()).value();
  EXPECT_EQ(dataset.train.features().shape(), (Shape{80, 8, 8, 3}));
  EXPECT_EQ(dataset.test.features().shape(), (Shape{40, 8, 8, 3}));
  EXPECT_EQ(dataset.num_classes, 4);
  std::vector<int> counts(4);
  for (const int32_t label : dataset.train.labels().values<int32_t>()) {
    ++counts[static_cast<size_t>(label)];
  }
  EXPECT_EQ(counts, std::vector<int>(4, 20));
}

TEST(SyntheticTest, IsAFunctionOfTheSeed) {
  SyntheticOptions options = SmallImages();
  const std::vector<double> first = MakeSynthetic(options)->train.features().ToDoubles();
  EXPECT_EQ(MakeSynthetic(options)->train.features().ToDoubles(), first);
  // More samples do not change those that were there.
  options.train_samples = 160;
  std::vector<double> longer = MakeSynthetic(options)->train.features().ToDoubles();
  longer.resize(first.size());
  EXPECT_EQ(longer, first);
  options.seed = 1;
  longer = MakeSynthetic(options)->train.features().ToDoubles();
  longer.resize(first.size());
  EXPECT_NE(longer, first);
}

// Asked often enough: not only between samples, which may be large, and classes, which may be many.
TEST(SyntheticTest, AStopIsSeenWithinASample) {
  SyntheticOptions options;
  options.sample_shape = Shape{1 << 20};
  options.num_classes = 2;
  options.train_samples = 1;
  options.test_samples = 0;
  int asked = 0;
  options.should_stop = [&asked] {
    ++asked;
    return false;
  };
  ASSERT_TRUE(MakeSynthetic(options).ok());
  EXPECT_GE(asked, 8);
  const int most = asked;
  for (int stop = 1; stop <= most; ++stop) {
    asked = 0;
    options.should_stop = [&asked, stop] { return ++asked == stop; };
    EXPECT_EQ(MakeSynthetic(options).status().code(), StatusCode::kCancelled);
    EXPECT_EQ(asked, stop);
  }
}

TEST(SyntheticTest, TheSplitsDiffer) {
  const Dataset dataset = MakeSynthetic(SmallImages()).value();
  EXPECT_NE(dataset.train.features().values<float>()[0],
            dataset.test.features().values<float>()[0]);
}

// Class means of the training part must tell the classes of the test part apart.
TEST(SyntheticTest, CanBeLearnt) {
  for (const Shape& shape : {Shape{8, 8, 3}, Shape{20}}) {
    SyntheticOptions options = SmallImages();
    options.sample_shape = shape;
    const Dataset dataset = MakeSynthetic(options).value();
    const auto elements = static_cast<size_t>(shape.num_elements());
    std::vector<double> means(4 * elements);
    const std::span<const float> train = dataset.train.features().values<float>();
    for (size_t i = 0; i < train.size(); ++i) {
      means[i / elements % 4 * elements + i % elements] += train[i] / 20;
    }
    const std::span<const float> test = dataset.test.features().values<float>();
    int correct = 0;
    for (size_t sample = 0; sample < 40; ++sample) {
      size_t nearest = 0;
      double nearest_distance = std::numeric_limits<double>::infinity();
      for (size_t label = 0; label < 4; ++label) {
        double distance = 0;
        for (size_t i = 0; i < elements; ++i) {
          distance += std::pow(test[sample * elements + i] - means[label * elements + i], 2);
        }
        if (distance < nearest_distance) {
          nearest = label;
          nearest_distance = distance;
        }
      }
      correct += nearest == sample % 4 ? 1 : 0;
    }
    EXPECT_GE(correct, 38) << shape.ToString();
  }
}

TEST(SyntheticTest, TheNoiseHasItsDeviation) {
  SyntheticOptions options = SmallImages();
  const std::vector<double> noisy = MakeSynthetic(options)->train.features().ToDoubles();
  options.noise = 0;
  const std::vector<double> clean = MakeSynthetic(options)->train.features().ToDoubles();
  double squares = 0;
  for (size_t i = 0; i < noisy.size(); ++i) {
    squares += std::pow(noisy[i] - clean[i], 2);
  }
  EXPECT_NEAR(std::sqrt(squares / static_cast<double>(noisy.size())), 0.5, 0.02);
}

TEST(SyntheticTest, RefusesWhatMakesNoSense) {
  SyntheticOptions options = SmallImages();
  options.sample_shape = Shape{8, 0};
  EXPECT_THAT(MakeSynthetic(options).status().message(), HasSubstr("sample shape [8, 0]"));
  options.sample_shape = Shape{};
  EXPECT_FALSE(MakeSynthetic(options).ok());
  options = SmallImages();
  options.num_classes = 1;
  EXPECT_THAT(MakeSynthetic(options).status().message(), HasSubstr("num_classes is 1"));
  options = SmallImages();
  options.train_samples = 0;
  EXPECT_THAT(MakeSynthetic(options).status().message(), HasSubstr("0 training"));
  options = SmallImages();
  options.noise = std::nanf("");
  EXPECT_THAT(MakeSynthetic(options).status().message(), HasSubstr("noise nan"));
  options = SmallImages();
  options.sample_shape = Shape{1 << 20, 1 << 20, 1 << 20};
  EXPECT_FALSE(MakeSynthetic(options).ok());
}

TEST(SyntheticTest, FewerSamplesThanClasses) {
  SyntheticOptions options = SmallImages();
  options.train_samples = 1;
  options.test_samples = 0;
  const Dataset dataset = MakeSynthetic(options).value();
  EXPECT_EQ(dataset.train.size(), 1);
  EXPECT_EQ(dataset.test.size(), 0);
}

}  // namespace
}  // namespace lockstep::data
