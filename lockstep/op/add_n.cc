#include "lockstep/op/add_n.h"

#include <algorithm>
#include <array>

#include "lockstep/graph/grad_context.h"
#include "lockstep/graph/op_def.h"
#include "lockstep/op/internal/broadcast_kernel.h"

namespace lockstep::op {
namespace {

// Terms are added strip by strip, so that the sum is written to memory once.
constexpr int64_t kStrip = 512;

Status Infer(InferContext& ctx) {
  if (ctx.dtype(0) == DType::kBool) {
    return InvalidArgument("the inputs are bool, expected numbers");
  }
  Shape shape = ctx.shape(0);
  for (int i = 1; i < ctx.num_inputs(); ++i) {
    LS_TRY(ctx.ExpectSameDType(0, i));
    LS_TRY(ctx.ExpectSameShape(0, i));
    for (int axis = 0; axis < shape.rank(); ++axis) {
      if (shape[axis] < 0) {
        shape.set_dim(axis, ctx.shape(i)[axis]);
      } else if (ctx.shape(i)[axis] >= 0 && ctx.shape(i)[axis] != shape[axis]) {
        return InvalidArgument("the inputs differ in shape");
      }
    }
  }
  ctx.AddOutput(ctx.dtype(0), shape);
  return OkStatus();
}

Status Grad(GradContext& ctx) {
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    ctx.SetGrad(i, ctx.dy());
  }
  return OkStatus();
}

void AddStrip(const float* a, const float* b, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    y[i] = a[i] + b[i];
  }
}

Result<Kernel> Cpu(const KernelRequest& request) {
  if (request.inputs[0].dtype != DType::kFloat32) {
    return Unimplemented("no kernel for this type");
  }
  Kernel kernel = ElementwiseKernel(request);
  const int count = static_cast<int>(request.inputs.size());
  const int64_t n = request.outputs[0].shape.num_elements();
  kernel.run = [=, threads = request.threads](const KernelArgs& args) {
    float* y = args.out<float>(0);
    ParallelFor(threads, n, kElementGrain, [&](int64_t begin, int64_t end) {
      // Only the last addition writes to y, which may be the buffer of any input.
      std::array<float, kStrip> partial;
      for (int64_t at = begin; at < end; at += kStrip) {
        const int64_t length = std::min(kStrip, end - at);
        const float* sum = args.in<float>(0) + at;
        if (count == 1) {
          std::copy_n(sum, length, y + at);
        }
        for (int i = 1; i < count; ++i) {
          float* target = i == count - 1 ? y + at : partial.data();
          AddStrip(sum, args.in<float>(i) + at, target, length);
          sum = target;
        }
      }
    });
    return OkStatus();
  };
  return kernel;
}

Status Reference(const ReferenceContext& ctx) {
  for (const std::vector<double>& x : ctx.inputs) {
    for (size_t i = 0; i < x.size(); ++i) {
      ctx.outputs[0][i] += x[i];
    }
  }
  return OkStatus();
}

std::vector<Sample> Samples() {
  const Shape image{2, 3, 4, 5};
  return {{.name = "one", .inputs = {{image}}},
          {.name = "three", .inputs = {{image}, {image}, {image}}},
          {.name = "long",
           .inputs = {{Shape{40000}}, {Shape{40000}}, {Shape{40000}}},
           .check_gradient = false},
          {.name = "int", .inputs = {{Shape{3}, DType::kInt32}, {Shape{3}, DType::kInt32}}}};
}

}  // namespace

OpDef AddNDef() {
  return {.name = "AddN",
          .summary = "the sum of all inputs",
          .min_inputs = 1,
          .max_inputs = OpDef::kVariadic,
          .infer = Infer,
          .grad = Grad,
          .cpu = Cpu,
          .reference = Reference,
          .samples = Samples,
          .elementwise = true};
}

Value AddN(BuildContext ctx, const std::vector<Value>& values) {
  return values.size() == 1 ? values[0] : ctx.Add("AddN", values);
}

}  // namespace lockstep::op
