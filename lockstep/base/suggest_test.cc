#include "lockstep/base/suggest.h"

#include <gtest/gtest.h>

#include <array>

namespace lockstep {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"learning_rate", "momentum", "epsilon", "l2"};

TEST(SuggestTest, FindsTypingErrors) {
  EXPECT_EQ(NearestName("lerning_rate", kNames), "learning_rate");
  EXPECT_EQ(NearestName("Momentun", kNames), "momentum");
  EXPECT_EQ(NearestName("espilon", kNames), "epsilon");
  EXPECT_EQ(NearestName("rate", kNames), "learning_rate");
}

TEST(SuggestTest, FindsInitials) {
  EXPECT_EQ(NearestName("lr", kNames), "learning_rate");
  EXPECT_EQ(NearestName("LR", kNames), "learning_rate");
  EXPECT_EQ(NearestName("er", kNames), "");
}

TEST(SuggestTest, KeepsQuietWhenNothingIsNear) {
  EXPECT_EQ(NearestName("batch_size", kNames), "");
  EXPECT_EQ(NearestName("", kNames), "");
  EXPECT_EQ(NearestName(std::string(100000, 'a'), kNames), "");
  EXPECT_EQ(DidYouMean("xyz", kNames), "");
}

TEST(SuggestTest, Phrase) {
  EXPECT_EQ(DidYouMean("momentim", kNames), ", did you mean 'momentum'?");
}

}  // namespace
}  // namespace lockstep
