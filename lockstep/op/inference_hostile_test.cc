// Shape inference of every op with hostile attributes and input types, as a graph file may bring
// them: extreme numbers, wrong ranks, wrong types, alone and in pairs. It must answer each time;
// arithmetic that overflows is found by the sanitizers.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "lockstep/graph/op_def.h"
#include "lockstep/op/catalog.h"

namespace lockstep::op {
namespace {

struct Call {
  AttrMap attrs;
  std::vector<TensorType> inputs;
};

using Mutation = std::function<void(Call&)>;

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr std::array<int64_t, 18> kInts = {0,
                                           1,
                                           -1,
                                           2,
                                           -2,
                                           3,
                                           8,
                                           -9,
                                           1000,
                                           int64_t{1} << 31,
                                           (int64_t{1} << 32) + 1,
                                           -(int64_t{1} << 32),
                                           int64_t{1} << 61,
                                           (int64_t{1} << 62) - 1,
                                           kMin,
                                           kMin + 1,
                                           kMax - 1,
                                           kMax};
constexpr std::array<DType, 7> kDTypes = {DType::kFloat32, DType::kBFloat16, DType::kFloat64,
                                          DType::kInt32,   DType::kInt64,    DType::kUInt8,
                                          DType::kBool};

// Valid shapes near `shape`: each dimension replaced, dimensions removed and appended.
std::vector<Shape> ShapesNear(const Shape& shape) {
  std::vector<Shape> result;
  const auto add = [&](const std::vector<int64_t>& dims) {
    if (Result<Shape> made = Shape::Create(dims); made.ok()) {
      result.push_back(*made);
    }
  };
  const std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    for (const int64_t value : kInts) {
      std::vector<int64_t> changed = dims;
      changed[axis] = value;
      add(changed);
    }
    add({dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(axis)});
  }
  for (size_t rank = dims.size() + 1; rank <= static_cast<size_t>(Shape::kMaxRank); ++rank) {
    std::vector<int64_t> longer = dims;
    longer.resize(rank, 1);
    add(longer);
  }
  add(std::vector<int64_t>(dims.size(), Shape::kUnknownDim));
  add(std::vector<int64_t>(dims.size(), 0));
  return result;
}

// Values of the same type as `value`, which the catalog has checked.
std::vector<AttrValue> ValuesNear(const AttrValue& value) {
  std::vector<AttrValue> result;
  if (std::holds_alternative<bool>(value)) {
    result = {true, false};
  } else if (std::holds_alternative<int64_t>(value)) {
    result.assign(kInts.begin(), kInts.end());
  } else if (std::holds_alternative<double>(value)) {
    const double infinity = std::numeric_limits<double>::infinity();
    result = {0.0, -1.0, 1e308, -1e308, infinity, -infinity, std::nan("")};
  } else if (std::holds_alternative<std::string>(value)) {
    result = {std::string(), std::string("?"), std::string(5000, 'x')};
  } else if (const auto* ints = std::get_if<std::vector<int64_t>>(&value)) {
    result = {std::vector<int64_t>(), std::vector<int64_t>(1000, 1)};
    for (const int64_t extreme : kInts) {
      for (size_t i = 0; i <= ints->size(); ++i) {
        std::vector<int64_t> changed = *ints;
        changed.resize(std::max(changed.size(), i + 1));
        changed[i] = extreme;
        result.emplace_back(std::move(changed));
      }
      result.emplace_back(std::vector<int64_t>(ints->size(), extreme));
    }
  } else if (std::holds_alternative<DType>(value)) {
    result.assign(kDTypes.begin(), kDTypes.end());
  } else if (const auto* shape = std::get_if<Shape>(&value)) {
    for (const Shape& near : ShapesNear(*shape)) {
      result.emplace_back(near);
    }
  } else {
    result = {Tensor(), *Tensor::Zeros(DType::kBool, Shape{0}), *Tensor::Scalar<double>(-1)};
  }
  return result;
}

std::vector<Mutation> Mutations(const Call& base) {
  std::vector<Mutation> result;
  for (const auto& [name, value] : base.attrs) {
    for (const AttrValue& changed : ValuesNear(value)) {
      result.emplace_back([attr = name, changed](Call& call) { call.attrs.Set(attr, changed); });
    }
  }
  for (size_t i = 0; i < base.inputs.size(); ++i) {
    for (const Shape& shape : ShapesNear(base.inputs[i].shape)) {
      result.emplace_back([i, shape](Call& call) { call.inputs[i].shape = shape; });
      // Equal shapes come further.
      result.emplace_back([shape](Call& call) {
        for (TensorType& input : call.inputs) {
          input.shape = shape;
        }
      });
    }
    for (const DType dtype : kDTypes) {
      result.emplace_back([i, dtype](Call& call) { call.inputs[i].dtype = dtype; });
      result.emplace_back([dtype](Call& call) {
        for (TensorType& input : call.inputs) {
          input.dtype = dtype;
        }
      });
    }
  }
  return result;
}

void Infer(const OpDef& op, const Call& call) {
  InferContext ctx(call.attrs, call.inputs);
  const Status status = op.infer(ctx);
  if (!status.ok()) {
    EXPECT_NE(status.message(), "");
  }
}

Call BaseCall(const OpDef& op, const Sample& sample) {
  Call call;
  call.attrs = sample.attrs;
  for (const AttrDef& def : op.attrs) {
    if (call.attrs.Find(def.name) == nullptr && def.default_value) {
      call.attrs.Set(def.name, *def.default_value);
    }
  }
  for (const SampleInput& input : sample.inputs) {
    const bool variable = op.Writes(static_cast<int>(call.inputs.size()));
    call.inputs.push_back({input.dtype, input.shape, variable});
  }
  return call;
}

class InferenceHostileTest : public ::testing::TestWithParam<std::string> {};

TEST_P(InferenceHostileTest, AnswersWhateverItIsGiven) {
  const OpDef& op = *Catalog().Find(GetParam());
  std::mt19937 random(1);
  for (const Sample& sample : op.samples()) {
    const Call base = BaseCall(op, sample);
    const std::vector<Mutation> mutations = Mutations(base);
    for (const Mutation& mutation : mutations) {
      Call call = base;
      mutation(call);
      Infer(op, call);
    }
    constexpr int kPairs = 500;
    for (int i = 0; i < kPairs && !mutations.empty(); ++i) {
      Call call = base;
      mutations[random() % mutations.size()](call);
      mutations[random() % mutations.size()](call);
      Infer(op, call);
    }
  }
}

std::vector<std::string> OpsWithSamples() {
  std::vector<std::string> names;
  for (const OpDef& op : Catalog().ops()) {
    if (op.samples != nullptr) {
      names.emplace_back(op.name);
    }
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(Ops, InferenceHostileTest, ::testing::ValuesIn(OpsWithSamples()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace lockstep::op
