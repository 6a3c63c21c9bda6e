#include "lockstep/exec/variable_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "lockstep/exec/testing/tensors.h"

namespace lockstep::exec {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor Counting(const Shape& shape) {
  Tensor tensor = Tensor::Allocate(DType::kFloat32, shape).value();
  const auto values = tensor.values<float>();
  std::iota(values.begin(), values.end(), 1.0F);
  return tensor;
}

std::vector<double> Values(const Result<Tensor>& tensor) {
  return tensor.value().ToDoubles();
}

class VariableStoreTest : public ::testing::Test {
 protected:
  VariableStore store_;
};

TEST_F(VariableStoreTest, MakesAVariableOnce) {
  Variable* made = store_.GetOrCreate("w", DType::kFloat32, Shape{2, 3}).value();
  EXPECT_EQ(made->name, "w");
  EXPECT_FALSE(made->initialized);
  EXPECT_FALSE(made->settled);
  EXPECT_TRUE(made->layout.is_plain());
  EXPECT_GE(made->buffer->size(), 24U);
  EXPECT_EQ(store_.GetOrCreate("w", DType::kFloat32, Shape{2, 3}).value(), made);
  EXPECT_EQ(store_.Find("w"), made);
  EXPECT_EQ(store_.Find("v"), nullptr);
}

TEST_F(VariableStoreTest, AnotherTypeOrShapeIsAnError) {
  ASSERT_TRUE(store_.GetOrCreate("w", DType::kFloat32, Shape{2, 3}).ok());
  const Status type = store_.GetOrCreate("w", DType::kInt32, Shape{2, 3}).status();
  EXPECT_EQ(type.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(type.message(), HasSubstr("variable 'w' is int32 [2, 3] here, it was made as "
                                        "float32 [2, 3]"));
  EXPECT_FALSE(store_.GetOrCreate("w", DType::kFloat32, Shape{3, 2}).ok());
  EXPECT_THAT(store_.GetOrCreate("open", DType::kFloat32, Shape{-1}).status().message(),
              HasSubstr("variable 'open' needs a fully known shape, found [?]"));
  EXPECT_EQ(store_.Find("open"), nullptr);
}

TEST_F(VariableStoreTest, AllInOrderOfName) {
  Variable* b = store_.GetOrCreate("b", DType::kFloat32, Shape{}).value();
  Variable* c = store_.GetOrCreate("c", DType::kFloat32, Shape{}).value();
  Variable* a = store_.GetOrCreate("a", DType::kFloat32, Shape{}).value();
  EXPECT_THAT(store_.All(), ElementsAre(a, b, c));
  store_.Clear();
  EXPECT_THAT(store_.All(), ElementsAre());
}

TEST_F(VariableStoreTest, ReadsWhatWasWritten) {
  ASSERT_TRUE(store_.GetOrCreate("w", DType::kFloat32, Shape{2, 2}).ok());
  const Tensor value = Counting(Shape{2, 2});
  ASSERT_TRUE(store_.Write("w", value).ok());
  const Tensor read = store_.Read("w").value();
  EXPECT_THAT(Values(read), ElementsAre(1, 2, 3, 4));
  // A copy: neither follows the other.
  value.values<float>()[0] = 9;
  read.values<float>()[1] = 9;
  EXPECT_THAT(Values(store_.Read("w")), ElementsAre(1, 2, 3, 4));
}

TEST_F(VariableStoreTest, ReadAndWriteErrors) {
  ASSERT_TRUE(store_.GetOrCreate("w", DType::kFloat32, Shape{2}).ok());
  EXPECT_EQ(store_.Read("v").status().code(), StatusCode::kNotFound);
  EXPECT_THAT(store_.Read("v").status().message(), HasSubstr("no variable 'v'"));
  EXPECT_EQ(store_.Read("w").status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(store_.Read("w").status().message(), HasSubstr("'w' is not initialised"));
  EXPECT_EQ(store_.Write("v", Counting(Shape{2})).code(), StatusCode::kNotFound);
  EXPECT_THAT(store_.Write("w", Counting(Shape{3})).message(),
              HasSubstr("variable 'w' is float32 [2], its new value float32 [3]"));
  const Tensor ints = Tensor::From<int32_t>(Shape{2}, {1, 2}).value();
  EXPECT_FALSE(store_.Write("w", ints).ok());
  EXPECT_FALSE(store_.Find("w")->initialized);
}

TEST_F(VariableStoreTest, OtherLayoutsKeepTheContents) {
  const Shape shape{2, 5, 3, 4};
  Variable* w = store_.GetOrCreate("w", DType::kFloat32, shape).value();
  const Tensor value = Counting(shape);
  ASSERT_TRUE(store_.Write("w", value).ok());
  const Layout blocked = BlockedChannels(shape);
  ASSERT_TRUE(Relayout(*w, blocked).ok());
  EXPECT_EQ(w->layout, blocked);
  ASSERT_EQ(w->buffer->size(), blocked.Bytes(shape, DType::kFloat32));

  // Element by element where the layout says, and zeros between.
  const auto* storage = static_cast<const float*>(w->buffer->data());
  double sum = 0;
  for (size_t i = 0; i < w->buffer->size() / sizeof(float); ++i) {
    sum += storage[i];
  }
  EXPECT_EQ(sum, 120 * 121 / 2);
  const int64_t index[] = {1, 3, 2, 1};
  EXPECT_EQ(storage[blocked.OffsetOf(shape, index)], 1 + ((1 * 5 + 3) * 3 + 2) * 4 + 1);

  EXPECT_EQ(store_.Read("w").value().ToDoubles(), value.ToDoubles());
  const Tensor negative = Counting(shape);
  for (float& element : negative.values<float>()) {
    element = -element;
  }
  ASSERT_TRUE(store_.Write("w", negative).ok());
  EXPECT_EQ(w->layout, blocked);
  EXPECT_EQ(store_.Read("w").value().ToDoubles(), negative.ToDoubles());
  ASSERT_TRUE(Relayout(*w, Layout()).ok());
  EXPECT_EQ(store_.Read("w").value().ToDoubles(), negative.ToDoubles());
}

TEST_F(VariableStoreTest, AnUninitialisedVariableMayMoveToo) {
  const Shape shape{1, 3, 2, 2};
  Variable* w = store_.GetOrCreate("w", DType::kFloat32, shape).value();
  ASSERT_TRUE(Relayout(*w, BlockedChannels(shape)).ok());
  EXPECT_FALSE(w->initialized);
  ASSERT_TRUE(store_.Write("w", Counting(shape)).ok());
  EXPECT_EQ(store_.Read("w").value().ToDoubles(), Counting(shape).ToDoubles());
}

TEST_F(VariableStoreTest, TheSameLayoutMovesNothing) {
  Variable* w = store_.GetOrCreate("w", DType::kFloat32, Shape{2}).value();
  const void* data = w->buffer->data();
  ASSERT_TRUE(Relayout(*w, Layout()).ok());
  EXPECT_EQ(w->buffer->data(), data);
}

TEST_F(VariableStoreTest, EmptyAndScalarVariables) {
  ASSERT_TRUE(store_.GetOrCreate("empty", DType::kFloat32, Shape{0, 3}).ok());
  ASSERT_TRUE(store_.Write("empty", Counting(Shape{0, 3})).ok());
  EXPECT_EQ(store_.Read("empty").value().num_elements(), 0);
  ASSERT_TRUE(store_.GetOrCreate("scalar", DType::kInt64, Shape{}).ok());
  ASSERT_TRUE(store_.Write("scalar", Tensor::Scalar<int64_t>(7).value()).ok());
  EXPECT_THAT(Values(store_.Read("scalar")), ElementsAre(7));
}

TEST_F(VariableStoreTest, ThreadsThatAskForOneVariableGetTheSame) {
  constexpr int kThreads = 8;
  std::vector<Variable*> found(kThreads, nullptr);
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([this, i, &found] {
      for (int n = 0; n < 50; ++n) {
        const std::string own = "own" + std::to_string(i) + "_" + std::to_string(n);
        EXPECT_TRUE(store_.GetOrCreate(own, DType::kFloat32, Shape{n}).ok());
        EXPECT_NE(store_.Find(own), nullptr);
      }
      found[static_cast<size_t>(i)] =
          store_.GetOrCreate("shared", DType::kFloat32, Shape{3}).value();
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_THAT(found, Each(store_.Find("shared")));
  EXPECT_EQ(store_.All().size(), 50U * kThreads + 1);
}

}  // namespace
}  // namespace lockstep::exec
