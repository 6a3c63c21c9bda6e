#include "lockstep/op/cast.h"

#include <cmath>
#include <cstring>

#include "lockstep/graph/grad_context.h"
#include "lockstep/graph/op_def.h"
#include "lockstep/op/internal/parallel.h"

namespace lockstep::op {
namespace {

using ConvertFn = void (*)(const void* source, void* target, int64_t count);

template <class From, class To>
void Convert(const void* source, void* target, int64_t count) {
  const auto* in = static_cast<const From*>(source);
  auto* out = static_cast<To*>(target);
  for (int64_t i = 0; i < count; ++i) {
    out[i] = static_cast<To>(in[i]);
  }
}

void FloatToBFloat16(const void* source, void* target, int64_t count) {
  const auto* in = static_cast<const float*>(source);
  auto* out = static_cast<uint16_t*>(target);
  for (int64_t i = 0; i < count; ++i) {
    const auto word = std::bit_cast<uint32_t>(in[i]);
    const uint32_t rounded = (word + 0x7FFFU + ((word >> 16) & 1U)) >> 16;
    const uint32_t quiet = (word >> 16) | 0x40U;
    out[i] = static_cast<uint16_t>((word & 0x7FFFFFFFU) > 0x7F800000U ? quiet : rounded);
  }
}

void BFloat16ToFloat(const void* source, void* target, int64_t count) {
  const auto* in = static_cast<const uint16_t*>(source);
  auto* out = static_cast<uint32_t*>(target);
  for (int64_t i = 0; i < count; ++i) {
    out[i] = static_cast<uint32_t>(in[i]) << 16;
  }
}

// Loops that the compiler vectorises, for the conversions of training; null for the others.
ConvertFn FastConvert(DType from, DType to) {
  if (to == DType::kBFloat16) {
    return from == DType::kFloat32 ? FloatToBFloat16 : nullptr;
  }
  if (to != DType::kFloat32) {
    return nullptr;
  }
  switch (from) {
    case DType::kBFloat16:
      return BFloat16ToFloat;
    case DType::kUInt8:
      return Convert<uint8_t, float>;
    case DType::kBool:
      return Convert<bool, float>;
    case DType::kInt32:
      return Convert<int32_t, float>;
    case DType::kInt64:
      return Convert<int64_t, float>;
    case DType::kFloat64:
      return Convert<double, float>;
    default:
      return nullptr;
  }
}

Status Infer(InferContext& ctx) {
  ctx.AddOutput(ctx.attrs().Get<DType>("dtype"), ctx.shape(0));
  return OkStatus();
}

Status Grad(GradContext& ctx) {
  const DType from = ctx.input(0).dtype();
  if (IsFloating(from) && IsFloating(ctx.dy().dtype())) {
    ctx.SetGrad(0, Cast(ctx, ctx.dy(), from));
  }
  return OkStatus();
}

Result<Kernel> Cpu(const KernelRequest& request) {
  const TensorDesc& input = request.inputs[0];
  const DType from = input.dtype;
  const DType to = request.outputs[0].dtype;
  Kernel kernel;
  // Padding is converted too: it is zero in both types.
  kernel.input_layouts = {input.layout};
  kernel.output_layouts = {input.layout};
  const auto n = static_cast<int64_t>(input.bytes() / DTypeSize(from));
  kernel.run = [=, fast = FastConvert(from, to),
                threads = request.threads](const KernelArgs& args) {
    ParallelFor(threads, n, kElementGrain, [&](int64_t begin, int64_t end) {
      const char* source = args.in<char>(0) + begin * static_cast<int64_t>(DTypeSize(from));
      char* target = args.out<char>(0) + begin * static_cast<int64_t>(DTypeSize(to));
      if (fast != nullptr) {
        fast(source, target, end - begin);
      } else {
        ConvertElements(from, source, to, target, end - begin);
      }
    });
    return OkStatus();
  };
  return kernel;
}

// The value that `dtype` holds for `value`, which is whole if `from_integer`.
double Converted(double value, DType dtype, bool from_integer) {
  const auto clamped = [&](double low, double high) {
    return std::isnan(value) ? 0.0 : std::min(high, std::max(low, std::trunc(value)));
  };
  switch (dtype) {
    case DType::kFloat32:
    case DType::kFloat64:
      return value;
    case DType::kBFloat16:
      return BFloat16::FromFloat(static_cast<float>(value)).ToFloat();
    case DType::kBool:
      return value != 0.0 ? 1.0 : 0.0;
    case DType::kUInt8:
      return from_integer ? static_cast<uint8_t>(static_cast<int64_t>(value)) : clamped(0.0, 255.0);
    case DType::kInt32:
      return from_integer ? static_cast<int32_t>(static_cast<int64_t>(value))
                          : clamped(-0x1p31, 0x1p31 - 1.0);
    case DType::kInt64:
      return from_integer ? value : clamped(-0x1p63, 0x1p63);
  }
  return value;
}

Status Reference(const ReferenceContext& ctx) {
  const bool from_integer = IsInteger(ctx.node.inputs[0].dtype());
  for (size_t i = 0; i < ctx.inputs[0].size(); ++i) {
    ctx.outputs[0][i] = Converted(ctx.inputs[0][i], ctx.output_dtypes[0], from_integer);
  }
  return OkStatus();
}

std::vector<Sample> Samples() {
  std::vector<Sample> samples;
  constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat64, DType::kInt32,
                              DType::kInt64,   DType::kUInt8,    DType::kBool};
  for (const DType from : kTypes) {
    for (const DType to : kTypes) {
      const bool is_unsigned = from == DType::kUInt8 || from == DType::kBool;
      const double high = from == DType::kBool ? 1.0 : 300.0;
      samples.push_back({.name = std::string(DTypeName(from)) + " to " + std::string(DTypeName(to)),
                         .inputs = {{Shape{5, 7}, from, is_unsigned ? 0.0 : -high,
                                     from == DType::kUInt8 ? 255.0 : high}},
                         .attrs = {{"dtype", to}},
                         .check_gradient = from == DType::kFloat32 && to == DType::kFloat32});
    }
  }
  return samples;
}

}  // namespace

OpDef CastDef() {
  return {.name = "Cast",
          .summary = "x converted to another type",
          .min_inputs = 1,
          .max_inputs = 1,
          .attrs = {{"dtype", AttrType::kDType}},
          .infer = Infer,
          .grad = Grad,
          .cpu = Cpu,
          .reference = Reference,
          .samples = Samples};
}

Value Cast(BuildContext ctx, Value x, DType dtype) {
  return x.valid() && x.dtype() == dtype ? x : ctx.Add("Cast", {x}, {{"dtype", dtype}});
}

}  // namespace lockstep::op
