#include "lockstep/op/dropout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lockstep/graph/grad_context.h"
#include "lockstep/graph/op_def.h"
#include "lockstep/op/internal/parallel.h"
#include "lockstep/op/internal/random_stream.h"

namespace lockstep::op {
namespace {

Status CheckRate(const AttrMap& attrs) {
  const double rate = attrs.GetFloat("rate");
  if (rate >= 0.0 && rate < 1.0) {
    return OkStatus();
  }
  return InvalidArgument(
      fmt::format("the attribute 'rate' is {}, allowed is 0 or more and less than 1", rate));
}

Status Infer(InferContext& ctx) {
  LS_TRY(ctx.ExpectFloating(0));
  LS_TRY(CheckRate(ctx.attrs()));
  ctx.AddOutput(ctx.dtype(0), ctx.shape(0));
  ctx.AddOutput(DType::kUInt8, ctx.shape(0));
  return OkStatus();
}

// A word below this is dropped.
uint64_t Threshold(double rate) {
  return static_cast<uint64_t>(std::ceil(rate * 0x1.0p32));
}

// The masks of elements [begin, end); begin is a multiple of 4.
template <class Mask>
void FillMask(const PhiloxStream& stream, uint64_t threshold, int64_t begin, int64_t end,
              Mask* mask) {
  for (int64_t i = begin; i < end; i += 4) {
    const PhiloxBlock words = stream.Block(static_cast<uint64_t>(i / 4));
    const int64_t count = std::min<int64_t>(4, end - i);
    for (int64_t k = 0; k < count; ++k) {
      mask[i + k] = static_cast<Mask>(words[static_cast<size_t>(k)] >= threshold ? 1 : 0);
    }
  }
}

void ApplyMask(const float* x, const uint8_t* mask, float scale, int64_t begin, int64_t end,
               float* y) {
  for (int64_t i = begin; i < end; ++i) {
    y[i] = mask[i] != 0 ? x[i] * scale : 0.0F;
  }
}

float ScaleOf(double rate) {
  return static_cast<float>(1.0 / (1.0 - rate));
}

Result<Kernel> Cpu(const KernelRequest& request) {
  if (request.inputs[0].dtype != DType::kFloat32) {
    return Unimplemented("Dropout has a float32 kernel");
  }
  const double rate = request.node.attrs.GetFloat("rate");
  Kernel kernel;
  kernel.in_place = {0, Kernel::kNone};
  kernel.run = [key = StreamKeyOf(request.node, true), threshold = Threshold(rate),
                scale = ScaleOf(rate), elements = request.inputs[0].shape.num_elements(),
                threads = request.threads](const KernelArgs& args) {
    const PhiloxStream stream = key.At(*args.step);
    ParallelFor(threads, elements, kElementGrain / 4, [&](int64_t begin, int64_t end) {
      FillMask(stream, threshold, begin, end, args.out<uint8_t>(1));
      ApplyMask(args.in<float>(0), args.out<uint8_t>(1), scale, begin, end, args.out<float>(0));
    });
    return OkStatus();
  };
  return kernel;
}

Status Reference(const ReferenceContext& ctx) {
  const double rate = ctx.node.attrs.GetFloat("rate");
  const auto elements = static_cast<int64_t>(ctx.inputs[0].size());
  FillMask(StreamKeyOf(ctx.node, true).At(ctx.step), Threshold(rate), 0, elements,
           ctx.outputs[1].data());
  for (size_t i = 0; i < ctx.inputs[0].size(); ++i) {
    ctx.outputs[0][i] = ctx.outputs[1][i] != 0.0 ? ctx.inputs[0][i] / (1.0 - rate) : 0.0;
  }
  return OkStatus();
}

Status Gradient(GradContext& ctx) {
  ctx.SetGrad(0, DropoutGrad(ctx, ctx.dy(), ctx.output(1), ctx.attrs().GetFloat("rate")));
  return OkStatus();
}

AttrMap Attrs(double rate, int64_t seed, std::string stream) {
  return {{"rate", rate}, {"seed", seed}, {"stream", std::move(stream)}};
}

std::vector<Sample> Samples() {
  return {
      {.name = "half", .inputs = {{.shape = {7, 9}}}, .attrs = Attrs(0.5, 0, "")},
      {.name = "large",
       .inputs = {{.shape = {3, 3001}}},
       .attrs = Attrs(0.25, 5, "s"),
       .check_gradient = false},
      {.name = "none", .inputs = {{.shape = {2, 3}}}, .attrs = Attrs(0.0, 0, "")},
  };
}

// ---- DropoutGrad

Status GradInfer(InferContext& ctx) {
  LS_TRY(ctx.ExpectFloating(0));
  LS_TRY(ctx.ExpectDType(1, DType::kUInt8));
  LS_TRY(ctx.ExpectSameShape(0, 1));
  LS_TRY(CheckRate(ctx.attrs()));
  ctx.AddOutput(ctx.dtype(0), ctx.shape(0));
  return OkStatus();
}

Result<Kernel> GradCpu(const KernelRequest& request) {
  if (request.inputs[0].dtype != DType::kFloat32) {
    return Unimplemented("DropoutGrad has a float32 kernel");
  }
  Kernel kernel;
  kernel.in_place = {0};
  kernel.run = [scale = ScaleOf(request.node.attrs.GetFloat("rate")),
                elements = request.inputs[0].shape.num_elements(),
                threads = request.threads](const KernelArgs& args) {
    ParallelFor(threads, elements, kElementGrain, [&](int64_t begin, int64_t end) {
      ApplyMask(args.in<float>(0), args.in<uint8_t>(1), scale, begin, end, args.out<float>(0));
    });
    return OkStatus();
  };
  return kernel;
}

Status GradReference(const ReferenceContext& ctx) {
  const double rate = ctx.node.attrs.GetFloat("rate");
  for (size_t i = 0; i < ctx.inputs[0].size(); ++i) {
    ctx.outputs[0][i] = ctx.inputs[1][i] != 0.0 ? ctx.inputs[0][i] / (1.0 - rate) : 0.0;
  }
  return OkStatus();
}

Status GradGradient(GradContext& ctx) {
  ctx.SetGrad(0, DropoutGrad(ctx, ctx.dy(), ctx.input(1), ctx.attrs().GetFloat("rate")));
  return OkStatus();
}

std::vector<Sample> GradSamples() {
  return {{.name = "half",
           .inputs = {{.shape = {5, 9}},
                      {.shape = {5, 9}, .dtype = DType::kUInt8, .low = 0, .high = 1}},
           .attrs = {{"rate", 0.5}}}};
}

}  // namespace

OpDef DropoutDef() {
  return {.name = "Dropout",
          .summary = "zeroes random elements and scales up the others",
          .min_inputs = 1,
          .max_inputs = 1,
          .attrs = {{"rate", AttrType::kFloat},
                    {"seed", AttrType::kInt, int64_t{0}},
                    {"stream", AttrType::kString, std::string()}},
          .infer = Infer,
          .grad = Gradient,
          .cpu = Cpu,
          .reference = Reference,
          .samples = Samples,
          .stateful = true};
}

OpDef DropoutGradDef() {
  return {.name = "DropoutGrad",
          .summary = "the gradient of Dropout",
          .min_inputs = 2,
          .max_inputs = 2,
          .attrs = {{"rate", AttrType::kFloat}},
          .infer = GradInfer,
          .grad = GradGradient,
          .cpu = GradCpu,
          .reference = GradReference,
          .samples = GradSamples};
}

Value Dropout(BuildContext ctx, Value x, double rate, int64_t seed, std::string stream) {
  return rate == 0.0 ? x : ctx.Add("Dropout", {x}, Attrs(rate, seed, std::move(stream)));
}

Value DropoutGrad(BuildContext ctx, Value dy, Value mask, double rate) {
  return ctx.Add("DropoutGrad", {dy, mask}, {{"rate", rate}});
}

}  // namespace lockstep::op
