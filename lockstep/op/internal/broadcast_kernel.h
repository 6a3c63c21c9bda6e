// Kernels of element-wise ops of two inputs that broadcast.
#pragma once

#include "lockstep/graph/kernel.h"
#include "lockstep/op/internal/broadcast.h"
#include "lockstep/op/internal/parallel.h"

namespace lockstep::op {

// True if each input has the output's shape or one element.
bool IsFlat(const KernelRequest& request);

// Fills in layouts and in_place of a kernel with one output. For a flat request any dense layout
// that the inputs exist in is kept; otherwise everything is plain. An input may be taken over if it
// has the output's shape and element size.
Kernel ElementwiseKernel(const KernelRequest& request);

// y[i] = Op::Apply(a[i or 0], b[i or 0]).
template <class In, class Out, class Op, bool kScalarA, bool kScalarB>
void BinaryStrip(const In* a, const In* b, Out* y, int64_t n) {
  // The pragma asserts that y is either a or b itself or apart from them.
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    y[i] = Op::Apply(a[kScalarA ? 0 : i], b[kScalarB ? 0 : i]);
  }
}

template <class In, class Out, class Op>
auto ChooseStrip(bool scalar_a, bool scalar_b) {
  if (scalar_a && scalar_b) {
    return &BinaryStrip<In, Out, Op, true, true>;
  }
  if (scalar_a) {
    return &BinaryStrip<In, Out, Op, true, false>;
  }
  return scalar_b ? &BinaryStrip<In, Out, Op, false, true>
                  : &BinaryStrip<In, Out, Op, false, false>;
}

template <class In, class Out, class Op>
Kernel BinaryKernel(const KernelRequest& request) {
  Kernel kernel = ElementwiseKernel(request);
  const int64_t n = request.outputs[0].shape.num_elements();
  const int threads = request.threads;
  if (IsFlat(request)) {
    const int64_t a_stride = request.inputs[0].shape.num_elements() == n ? 1 : 0;
    const int64_t b_stride = request.inputs[1].shape.num_elements() == n ? 1 : 0;
    const auto strip = ChooseStrip<In, Out, Op>(a_stride == 0, b_stride == 0);
    kernel.run = [=](const KernelArgs& args) {
      const In* a = args.in<In>(0);
      const In* b = args.in<In>(1);
      Out* y = args.out<Out>(0);
      ParallelFor(threads, n, kElementGrain, [&](int64_t begin, int64_t end) {
        strip(a + begin * a_stride, b + begin * b_stride, y + begin, end - begin);
      });
      return OkStatus();
    };
    return kernel;
  }
  const Shape shapes[] = {request.inputs[0].shape, request.inputs[1].shape};
  const BroadcastPlan plan = MakeBroadcastPlan(request.outputs[0].shape, shapes);
  const auto strip =
      ChooseStrip<In, Out, Op>(plan.inner_strides[0] == 0, plan.inner_strides[1] == 0);
  kernel.run = [=](const KernelArgs& args) {
    const In* a = args.in<In>(0);
    const In* b = args.in<In>(1);
    Out* y = args.out<Out>(0);
    const int64_t grain = 1 + kElementGrain / (plan.inner + 1);
    ParallelFor(threads, plan.rows, grain, [&](int64_t begin, int64_t end) {
      ForEachRow(plan, begin, end, [&](int64_t row, const BroadcastOffsets& offsets) {
        strip(a + offsets[0], b + offsets[1], y + row * plan.inner, plan.inner);
      });
    });
    return OkStatus();
  };
  return kernel;
}

}  // namespace lockstep::op
