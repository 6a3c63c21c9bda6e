#include "lockstep/train/state_hash.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/sha256.h"

namespace lockstep::train {
namespace {

using ::testing::HasSubstr;

// 8 bytes, the least significant first.
std::string Int(uint64_t value) {
  std::string bytes;
  for (int i = 0; i < 8; ++i, value /= 256) {
    bytes += static_cast<char>(value % 256);
  }
  return bytes;
}

std::string Sized(const std::string& text) {
  return Int(text.size()) + text;
}

class StateHashTest : public ::testing::Test {
 protected:
  void Write(const std::string& name, const Tensor& value) {
    ASSERT_TRUE(store_.GetOrCreate(name, value.dtype(), value.shape()).ok());
    ASSERT_TRUE(store_.Write(name, value).ok());
  }

  void WriteFloats(const std::string& name, const Shape& shape, std::vector<float> values) {
    Write(name, Tensor::From<float>(shape, values).value());
  }

  std::string Params(const std::vector<std::string>& names) {
    return HashVariables(store_, names).value();
  }

  exec::VariableStore store_;
};

// 1.0F is 00 00 80 3f, -2.0F is 00 00 00 c0, 0.5F is 00 00 00 3f.
const std::string kOne("\x00\x00\x80\x3f", 4);
const std::string kMinusTwo("\x00\x00\x00\xc0", 4);
const std::string kHalf("\x00\x00\x00\x3f", 4);

TEST_F(StateHashTest, IsTheDigestOfTheBytesThatTheHeaderDescribes) {
  WriteFloats("dense/kernel", Shape{1, 2}, {1, -2});
  WriteFloats("dense/bias", Shape{}, {0.5});
  const std::string kernel =
      Sized("dense/kernel") + Sized("float32") + Int(2) + Int(1) + Int(2) + kOne + kMinusTwo;
  const std::string bias = Sized("dense/bias") + Sized("float32") + Int(0) + kHalf;
  EXPECT_EQ(Params({"dense/bias", "dense/kernel"}), Sha256Hex(bias + kernel).value());
  EXPECT_EQ(Params({"dense/kernel", "dense/bias"}), Sha256Hex(kernel + bias).value());
}

TEST_F(StateHashTest, StateAddsSlotsAndTheStep) {
  WriteFloats("w", Shape{1}, {1});
  WriteFloats("w/momentum", Shape{1}, {0.5});
  const std::string w = Sized("w") + Sized("float32") + Int(1) + Int(1) + kOne;
  const std::string slot = Sized("w/momentum") + Sized("float32") + Int(1) + Int(1) + kHalf;
  const std::vector<std::string> model = {"w"};
  const std::vector<std::string> slots = {"w/momentum"};
  EXPECT_EQ(HashState(store_, model, slots, 513).value(), Sha256Hex(w + slot + Int(513)).value());
  EXPECT_EQ(HashState(store_, model, {}, 0).value(), Sha256Hex(w + Int(0)).value());
}

TEST_F(StateHashTest, OtherTypesHaveTheirOwnNameAndBytes) {
  Write("count", Tensor::From<int64_t>(Shape{2}, {1, -1}).value());
  EXPECT_EQ(Params({"count"}), Sha256Hex(Sized("count") + Sized("int64") + Int(1) + Int(2) +
                                         Int(1) + std::string(8, '\xff'))
                                   .value());
}

TEST_F(StateHashTest, NothingIsTheDigestOfNothing) {
  // FIPS 180-4: SHA-256 of the empty message.
  EXPECT_EQ(Params({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST_F(StateHashTest, EveryBitCounts) {
  WriteFloats("a", Shape{2}, {1, 0});
  const std::string before = Params({"a"});
  WriteFloats("a", Shape{2}, {1, -0.0F});
  EXPECT_NE(Params({"a"}), before);
  WriteFloats("a", Shape{2}, {1, 0});
  EXPECT_EQ(Params({"a"}), before);
}

// The same values elsewhere must not look alike.
TEST_F(StateHashTest, NamesAndShapesCount) {
  WriteFloats("a", Shape{2}, {1, 2});
  WriteFloats("b", Shape{2}, {1, 2});
  WriteFloats("c", Shape{1, 2}, {1, 2});
  WriteFloats("d", Shape{2, 1}, {1, 2});
  EXPECT_NE(Params({"a"}), Params({"b"}));
  EXPECT_NE(Params({"c"}), Params({"d"}));
}

TEST_F(StateHashTest, TheLayoutInMemoryDoesNotCount) {
  WriteFloats("a", Shape{2, 3}, {1, 2, 3, 4, 5, 6});
  const std::string before = Params({"a"});
  exec::Variable* variable = store_.Find("a");
  ASSERT_NE(variable, nullptr);
  const Shape shape{2, 3};
  const int64_t strides[] = {1, 2};
  const Layout columns_first = Layout::Blocked(shape, shape.dims(), strides, {});
  ASSERT_TRUE(exec::Relayout(*variable, columns_first).ok());
  ASSERT_EQ(static_cast<const float*>(variable->buffer->data())[1], 4.0F);
  EXPECT_EQ(Params({"a"}), before);
}

TEST_F(StateHashTest, AnUnknownVariableIsAnErrorThatNamesIt) {
  const std::vector<std::string> names = {"nowhere"};
  EXPECT_THAT(HashVariables(store_, names).status().message(), HasSubstr("nowhere"));
  EXPECT_FALSE(HashState(store_, {}, names, 0).ok());
}

}  // namespace
}  // namespace lockstep::train
