// What all optimizer ops have in common: their inputs are var, slots..., [step], lr, and the
// gradient; output 0 is the variable.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "lockstep/graph/op_def.h"

namespace lockstep::op {

// Where the inputs of an optimizer op with `slots` slots are.
struct ApplyInputs {
  int slots = 0;
  bool uses_step = false;

  int step() const { return 1 + slots; }

  int lr() const { return 1 + slots + (uses_step ? 1 : 0); }

  int grad() const { return lr() + 1; }

  int written() const { return 1 + slots; }
};

// Types and shapes: a float32 variable, slots like it, a float32 rate, a step that is a float32 or
// int64 scalar.
Status InferApplyState(InferContext& ctx, const ApplyInputs& inputs);
// The same and a gradient like the variable.
Status InferApply(InferContext& ctx, const ApplyInputs& inputs);

// Attributes that must be finite and in [0, limit) where limit is positive.
Status ExpectInRange(const AttrMap& attrs, std::string_view name, double limit = 0.0);

// The layout for the variable, its slots and the gradient: the variable's if it is settled,
// otherwise the gradient's. Fills in layouts and alias of the kernel; returns the number of
// elements of the storage, padding included.
int64_t PrepareApplyKernel(const KernelRequest& request, const ApplyInputs& inputs, Kernel* kernel);

// The run-time value of lr, and of the step, which must be 1 or more (1 if the op has none).
struct ApplyScalars {
  double lr = 0.0;
  double step = 1.0;
};

Result<ApplyScalars> ReadApplyScalars(const KernelArgs& args, const ApplyInputs& inputs,
                                      DType step_dtype);
Result<ApplyScalars> ReadApplyScalars(const ReferenceContext& ctx, const ApplyInputs& inputs);

// state[i] points to the elements of written input i: the variable, then its slots. The gradient of
// an element is scale * grad + l2 * variable.
template <class T, class Step, size_t... Slot>
void UpdateElements(const Step& step, T scale, T l2, std::array<T*, 1 + sizeof...(Slot)> state,
                    const T* grad, int64_t begin, int64_t end, std::index_sequence<Slot...>) {
  // No element is read after another one was written.
#pragma GCC ivdep
  for (int64_t i = begin; i < end; ++i) {
    const T g = scale * grad[i] + l2 * state[0][i];
    step(state[0][i], state[1 + Slot][i]..., g);
  }
}

}  // namespace lockstep::op
