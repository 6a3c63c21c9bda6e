// OpDef: everything that the system knows about one op, in one place: its signature, shape
// inference, gradient, CPU kernel, float64 reference and samples (from which conformance tests
// run). OpCatalog: the ops there are.
//
// An op's inference checks its inputs completely: what passes it must be safe to build a kernel
// for.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/graph/attr.h"
#include "lockstep/graph/kernel.h"
#include "lockstep/graph/node.h"

namespace lockstep {

class GradContext;

// Passed to shape inference: reads input types and attributes, adds the output types. Dimensions
// may be unknown.
class InferContext {
 public:
  InferContext(const AttrMap& attrs, std::span<const TensorType> inputs)
      : attrs_(attrs), inputs_(inputs) {}

  const AttrMap& attrs() const { return attrs_; }

  int num_inputs() const { return static_cast<int>(inputs_.size()); }

  const TensorType& input(int i) const { return inputs_[static_cast<size_t>(i)]; }

  const Shape& shape(int i) const { return input(i).shape; }

  DType dtype(int i) const { return input(i).dtype; }

  void AddOutput(DType dtype, const Shape& shape) { outputs_.push_back({dtype, shape, false}); }

  // The output is a variable: the one read here, or one just declared.
  void AddVariableOutput(DType dtype, const Shape& shape) {
    outputs_.push_back({dtype, shape, true});
  }

  // Errors that name the input ("input 1 has rank 3, MatMul needs 2 or more" and so on).
  Status ExpectRank(int i, int rank) const;
  Status ExpectMinRank(int i, int rank) const;
  Status ExpectDType(int i, DType dtype) const;
  Status ExpectFloating(int i) const;
  Status ExpectSameDType(int i, int j) const;
  Status ExpectSameShape(int i, int j) const;

  std::vector<TensorType> TakeOutputs() { return std::move(outputs_); }

 private:
  const AttrMap& attrs_;
  std::span<const TensorType> inputs_;
  std::vector<TensorType> outputs_;
};

// Passed to the float64 reference: every tensor as doubles, row-major, whatever its type.
struct ReferenceContext {
  const Node& node;
  std::span<const Shape> input_shapes;
  std::span<const std::vector<double>> inputs;
  std::span<const Shape> output_shapes;
  // Sized to the output shapes and zero when called. For an input that is a variable to be written,
  // the reference puts its new value into `variables[i]` (sized, holding the old value).
  std::span<std::vector<double>> outputs;
  std::span<std::vector<double>> variables;
  StepInfo step;
  std::span<const DType> output_dtypes;
};

// One input of a sample: explicit values, or values spread deterministically over [low, high]
// (floats: no two equal in small tensors, so that maxima are unique; integers: whole numbers of the
// range, both ends included).
struct SampleInput {
  Shape shape = {};
  DType dtype = DType::kFloat32;
  double low = -2.0;
  double high = 2.0;
  std::vector<double> values = {};
};

// One case for the conformance tests.
struct Sample {
  std::string name = {};
  std::vector<SampleInput> inputs = {};
  AttrMap attrs = {};
  // Kernel against reference: |a - b| <= tolerance * (1 + |b|).
  double tolerance = 1e-5;
  // Gradient against finite differences of the reference; false where the function is not smooth at
  // the sample.
  bool check_gradient = true;
  double gradient_tolerance = 1e-4;
};

using InferFn = Status (*)(InferContext&);
using GradFn = Status (*)(GradContext&);
using KernelFn = Result<Kernel> (*)(const KernelRequest&);
using ReferenceFn = Status (*)(const ReferenceContext&);
using SamplesFn = std::vector<Sample> (*)();

struct OpDef {
  static constexpr int kVariadic = -1;

  std::string_view name = {};
  // One line: what it computes.
  std::string_view summary = {};
  int min_inputs = 0;
  int max_inputs = 0;  // kVariadic: no limit
  std::vector<AttrDef> attrs = {};
  InferFn infer = nullptr;
  // None: a gradient that has to pass through is an error.
  GradFn grad = nullptr;
  // None, or kUnimplemented for a type: the plan falls back on float32 (for bfloat16) and then on
  // the reference.
  KernelFn cpu = nullptr;
  ReferenceFn reference = nullptr;
  SamplesFn samples = nullptr;

  // Bit i: input i must be a variable, and is written.
  uint32_t written_inputs = 0;
  // Bit i: the written variable may be uninitialised (Assign).
  uint32_t initialized_inputs = 0;
  // Bit i: only the shape of input i is used; its elements are not kept alive.
  uint32_t shape_only_inputs = 0;
  // Runs although nothing consumes it is asked for by targets only; may not be folded, merged or
  // reused.
  bool stateful = false;
  // Element-wise on same-shaped float32 inputs: may become a part of FusedElementwise.
  bool elementwise = false;
  // Made by passes, not for users.
  bool internal = false;

  bool Writes(int i) const { return i < 32 && ((written_inputs >> i) & 1U) != 0; }

  bool Initializes(int i) const { return i < 32 && ((initialized_inputs >> i) & 1U) != 0; }

  bool UsesShapeOnly(int i) const { return i < 32 && ((shape_only_inputs >> i) & 1U) != 0; }

  bool writes_variables() const { return written_inputs != 0; }
};

// Immutable after construction, so safe to share between threads.
class OpCatalog {
 public:
  // Names must be unique.
  explicit OpCatalog(std::vector<OpDef> ops);

  // Null if there is none.
  const OpDef* Find(std::string_view name) const;

  // Sorted by name.
  std::span<const OpDef> ops() const { return ops_; }

 private:
  std::vector<OpDef> ops_;
};

}  // namespace lockstep
