#include "lockstep/op/layer_norm.h"

#include <fmt/format.h>

#include <cmath>

#include "lockstep/graph/grad_context.h"
#include "lockstep/graph/op_def.h"
#include "lockstep/op/internal/lane_sum.h"
#include "lockstep/op/internal/parallel.h"

namespace lockstep::op {
namespace {

using internal::LaneSum;

// Inputs of LayerNormGrad.
constexpr int kDy = 0;
constexpr int kX = 1;
constexpr int kScale = 2;

// Columns of a parameter gradient that are summed up together, and rows between changes from
// float32 to float64.
constexpr int64_t kColumns = 64;
constexpr int64_t kRows = 128;

Result<Shape> NormalizedShape(const AttrMap& attrs, const Shape& x) {
  const int64_t axes = attrs.GetInt("num_axes");
  if (axes < 1 || axes > x.rank()) {
    return InvalidArgument(fmt::format("num_axes is {}, expected 1 to {}, the rank of {}", axes,
                                       x.rank(), x.ToString()));
  }
  const double epsilon = attrs.GetFloat("epsilon");
  if (!(epsilon > 0.0) || !std::isfinite(epsilon)) {
    return InvalidArgument(fmt::format("epsilon is {}, expected a positive number", epsilon));
  }
  return Shape(x.dims().last(static_cast<size_t>(axes)));
}

Status ExpectParameter(const InferContext& ctx, int i, const Shape& expected) {
  LS_TRY(ctx.ExpectSameDType(0, i));
  if (!ctx.shape(i).CompatibleWith(expected)) {
    return InvalidArgument(fmt::format("input {} has the shape {}, expected {}", i,
                                       ctx.shape(i).ToString(), expected.ToString()));
  }
  return OkStatus();
}

Status Infer(InferContext& ctx) {
  LS_TRY(ctx.ExpectFloating(0));
  LS_ASSIGN_OR_RETURN(const Shape normalized, NormalizedShape(ctx.attrs(), ctx.shape(0)));
  LS_TRY(ExpectParameter(ctx, 1, normalized));
  LS_TRY(ExpectParameter(ctx, 2, normalized));
  ctx.AddOutput(ctx.dtype(0), ctx.shape(0));
  return OkStatus();
}

Status GradInfer(InferContext& ctx) {
  LS_TRY(ctx.ExpectFloating(kDy));
  LS_TRY(ctx.ExpectSameDType(kDy, kX));
  LS_TRY(ctx.ExpectSameShape(kDy, kX));
  LS_ASSIGN_OR_RETURN(const Shape normalized, NormalizedShape(ctx.attrs(), ctx.shape(kX)));
  LS_TRY(ExpectParameter(ctx, kScale, normalized));
  ctx.AddOutput(ctx.dtype(kX), ctx.shape(kX));
  ctx.AddOutput(ctx.dtype(kX), normalized);
  ctx.AddOutput(ctx.dtype(kX), normalized);
  return OkStatus();
}

Status Grad(GradContext& ctx) {
  const BuildContext build = ctx;
  Node* grad = build.AddNode("LayerNormGrad", {ctx.dy(), ctx.input(0), ctx.input(1)}, ctx.attrs());
  if (grad != nullptr) {
    for (int i = 0; i < 3; ++i) {
      ctx.SetGrad(i, grad->output(i));
    }
  }
  return OkStatus();
}

struct Rows {
  int64_t count;
  int64_t size;
  double epsilon;
  int threads;

  Rows(const KernelRequest& request, const Shape& x)
      : size(1), epsilon(request.node.attrs.GetFloat("epsilon")), threads(request.threads) {
    for (int64_t i = 1; i <= request.node.attrs.GetInt("num_axes"); ++i) {
      size *= x.dim(static_cast<int>(-i));
    }
    count = size == 0 ? 0 : x.num_elements() / size;
  }
};

struct Moments {
  float mean;
  float inverse;  // 1 / standard deviation
};

Moments MomentsOf(const float* x, const Rows& rows) {
  const auto size = static_cast<double>(rows.size);
  const double mean = LaneSum(rows.size, [x](int64_t i) { return x[i]; }) / size;
  const auto center = static_cast<float>(mean);
  const double variance = LaneSum(rows.size,
                                  [x, center](int64_t i) {
                                    const float d = x[i] - center;
                                    return d * d;
                                  }) /
                          size;
  return {center, static_cast<float>(1.0 / std::sqrt(variance + rows.epsilon))};
}

Result<Kernel> Cpu(const KernelRequest& request) {
  if (request.inputs[0].dtype != DType::kFloat32) {
    return Unimplemented("LayerNorm has a kernel for float32 only");
  }
  Kernel kernel;
  kernel.in_place = {0};
  kernel.run = [rows = Rows(request, request.inputs[0].shape)](const KernelArgs& args) {
    const auto* scale = args.in<float>(1);
    const auto* offset = args.in<float>(2);
    ParallelFor(rows.threads, rows.count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const float* x = args.in<float>(0) + row * rows.size;
        float* y = args.out<float>(0) + row * rows.size;
        const Moments m = MomentsOf(x, rows);
        for (int64_t i = 0; i < rows.size; ++i) {
          y[i] = (x[i] - m.mean) * m.inverse * scale[i] + offset[i];
        }
      }
    });
    return OkStatus();
  };
  return kernel;
}

void InputGradient(const Rows& rows, const float* dy, const float* x, const float* scale,
                   const Moments& m, float* dx) {
  const auto size = static_cast<double>(rows.size);
  const double sum = LaneSum(rows.size, [=](int64_t i) { return dy[i] * scale[i]; });
  const double products =
      LaneSum(rows.size, [=](int64_t i) { return dy[i] * scale[i] * (x[i] - m.mean); });
  const auto a = static_cast<float>(sum / size);
  const auto b = static_cast<float>(products / size * static_cast<double>(m.inverse * m.inverse));
  for (int64_t i = 0; i < rows.size; ++i) {
    dx[i] = m.inverse * (dy[i] * scale[i] - a - (x[i] - m.mean) * b);
  }
}

// Columns [begin, end) of the gradients of scale and offset; rows are added in order.
void ParameterGradients(const Rows& rows, int64_t begin, int64_t end, const float* dy,
                        const float* x, const Moments* moments, float* dscale, float* doffset) {
  double scale_sums[kColumns] = {};
  double offset_sums[kColumns] = {};
  const int64_t columns = end - begin;
  for (int64_t first = 0; first < rows.count; first += kRows) {
    float s[kColumns] = {};
    float o[kColumns] = {};
    for (int64_t row = first; row < std::min(rows.count, first + kRows); ++row) {
      const float* g = dy + row * rows.size + begin;
      const float* v = x + row * rows.size + begin;
      const Moments m = moments[row];
      for (int64_t c = 0; c < columns; ++c) {
        s[c] += g[c] * ((v[c] - m.mean) * m.inverse);
        o[c] += g[c];
      }
    }
    for (int64_t c = 0; c < columns; ++c) {
      scale_sums[c] += static_cast<double>(s[c]);
      offset_sums[c] += static_cast<double>(o[c]);
    }
  }
  for (int64_t c = 0; c < columns; ++c) {
    dscale[begin + c] = static_cast<float>(scale_sums[c]);
    doffset[begin + c] = static_cast<float>(offset_sums[c]);
  }
}

Result<Kernel> GradCpu(const KernelRequest& request) {
  if (request.inputs[kX].dtype != DType::kFloat32) {
    return Unimplemented("LayerNormGrad has a kernel for float32 only");
  }
  const Rows rows(request, request.inputs[kX].shape);
  Kernel kernel;
  kernel.scratch_bytes = static_cast<size_t>(rows.count) * sizeof(Moments);
  kernel.run = [rows](const KernelArgs& args) {
    const auto* dy = args.in<float>(kDy);
    const auto* x = args.in<float>(kX);
    auto* moments = static_cast<Moments*>(args.scratch);
    ParallelFor(rows.threads, rows.count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t at = row * rows.size;
        moments[row] = MomentsOf(x + at, rows);
        InputGradient(rows, dy + at, x + at, args.in<float>(kScale), moments[row],
                      args.out<float>(0) + at);
      }
    });
    ParallelFor(rows.threads, rows.size, kColumns, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; c += kColumns) {
        ParameterGradients(rows, c, std::min(end, c + kColumns), dy, x, moments, args.out<float>(1),
                           args.out<float>(2));
      }
    });
    return OkStatus();
  };
  return kernel;
}

// Calls visit(first element of the row, mean, 1 / standard deviation) for each row.
template <class Visit>
void VisitRows(const ReferenceContext& ctx, const std::vector<double>& x, size_t size,
               const Visit& visit) {
  const double epsilon = ctx.node.attrs.GetFloat("epsilon");
  for (size_t row = 0; size > 0 && row < x.size(); row += size) {
    double mean = 0.0;
    double variance = 0.0;
    for (size_t i = 0; i < size; ++i) {
      mean += x[row + i] / static_cast<double>(size);
    }
    for (size_t i = 0; i < size; ++i) {
      variance += (x[row + i] - mean) * (x[row + i] - mean) / static_cast<double>(size);
    }
    visit(row, mean, 1.0 / std::sqrt(variance + epsilon));
  }
}

Status Reference(const ReferenceContext& ctx) {
  const std::vector<double>& x = ctx.inputs[0];
  const size_t size = ctx.inputs[1].size();
  VisitRows(ctx, x, size, [&](size_t row, double mean, double inverse) {
    for (size_t i = 0; i < size; ++i) {
      ctx.outputs[0][row + i] = (x[row + i] - mean) * inverse * ctx.inputs[1][i] + ctx.inputs[2][i];
    }
  });
  return OkStatus();
}

Status GradReference(const ReferenceContext& ctx) {
  const std::vector<double>& dy = ctx.inputs[kDy];
  const std::vector<double>& x = ctx.inputs[kX];
  const std::vector<double>& scale = ctx.inputs[kScale];
  const size_t size = scale.size();
  VisitRows(ctx, x, size, [&](size_t row, double mean, double inverse) {
    double sum = 0.0;
    double products = 0.0;
    for (size_t i = 0; i < size; ++i) {
      const double normal = (x[row + i] - mean) * inverse;
      sum += dy[row + i] * scale[i] / static_cast<double>(size);
      products += dy[row + i] * scale[i] * normal / static_cast<double>(size);
      ctx.outputs[1][i] += dy[row + i] * normal;
      ctx.outputs[2][i] += dy[row + i];
    }
    for (size_t i = 0; i < size; ++i) {
      const double normal = (x[row + i] - mean) * inverse;
      ctx.outputs[0][row + i] = inverse * (dy[row + i] * scale[i] - sum - normal * products);
    }
  });
  return OkStatus();
}

struct Case {
  std::string name;
  Shape x;
  Shape normalized;
};

std::vector<Case> Cases() {
  return {{"last_axis", {4, 3, 11}, {11}},
          {"two_axes", {3, 4, 5}, {4, 5}},
          {"long_rows", {2, 1100}, {1100}},
          {"many_rows", {150, 70}, {70}},
          {"one_element", {5, 1}, {1}}};
}

std::vector<Sample> MakeSamples(bool gradient) {
  std::vector<Sample> samples;
  for (const Case& c : Cases()) {
    const SampleInput x{.shape = c.x};
    const SampleInput parameter{.shape = c.normalized, .low = 0.5, .high = 1.5};
    samples.push_back(
        {.name = c.name,
         .inputs = gradient ? std::vector{x, x, parameter} : std::vector{x, parameter, parameter},
         .attrs = {{"num_axes", static_cast<int64_t>(c.normalized.rank())}},
         // One element has no spread: its rounding errors are divided by sqrt(epsilon).
         .tolerance = c.normalized == Shape{1} ? 1e-4 : 1e-5,
         .check_gradient = c.x.num_elements() < 200 && c.normalized != Shape{1}});
  }
  return samples;
}

std::vector<Sample> Samples() {
  return MakeSamples(false);
}

std::vector<Sample> GradSamples() {
  return MakeSamples(true);
}

std::vector<AttrDef> Attrs() {
  return {{"num_axes", AttrType::kInt, int64_t{1}}, {"epsilon", AttrType::kFloat, 1e-5}};
}

}  // namespace

OpDef LayerNormDef() {
  return {.name = "LayerNorm",
          .summary = "normalisation of each row",
          .min_inputs = 3,
          .max_inputs = 3,
          .attrs = Attrs(),
          .infer = Infer,
          .grad = Grad,
          .cpu = Cpu,
          .reference = Reference,
          .samples = Samples};
}

OpDef LayerNormGradDef() {
  return {.name = "LayerNormGrad",
          .summary = "gradients of LayerNorm",
          .min_inputs = 3,
          .max_inputs = 3,
          .attrs = Attrs(),
          .infer = GradInfer,
          .cpu = GradCpu,
          .reference = GradReference,
          .samples = GradSamples};
}

Value LayerNorm(BuildContext ctx, Value x, Value scale, Value offset, int64_t num_axes,
                double epsilon) {
  return ctx.Add("LayerNorm", {x, scale, offset}, {{"num_axes", num_axes}, {"epsilon", epsilon}});
}

}  // namespace lockstep::op
