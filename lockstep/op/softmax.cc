#include "lockstep/op/softmax.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "lockstep/graph/grad_context.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/internal/axis_view.h"
#include "lockstep/op/internal/parallel.h"
#include "lockstep/op/internal/softmax_rows.h"
#include "lockstep/op/reduce.h"
#include "lockstep/op/unary.h"

namespace lockstep::op {
namespace {

// Columns of the inner dimension that are worked on at once.
constexpr int64_t kTile = 256;

Result<AxisView> ViewOf(const Node& node, const Shape& shape) {
  return MakeAxisView(shape, node.attrs.GetInt("axis"));
}

Status Infer(InferContext& ctx) {
  LS_TRY(ctx.ExpectFloating(0));
  LS_TRY(NormalizeAxis(ctx.attrs().GetInt("axis"), ctx.shape(0).rank()).status());
  ctx.AddOutput(ctx.dtype(0), ctx.shape(0));
  return OkStatus();
}

Status GradInfer(InferContext& ctx) {
  LS_TRY(ctx.ExpectSameDType(0, 1));
  LS_TRY(ctx.ExpectSameShape(0, 1));
  return Infer(ctx);
}

// Calls rows(begin, end) for parts of [0, outer) if the axis is the innermost dimension, otherwise
// tile(offset, width) for every block of at most kTile inner columns.
template <class Rows, class Tile>
void ForEachPart(const AxisView& view, int threads, const Rows& rows, const Tile& tile) {
  if (view.axis == 0) {
    return;
  }
  if (view.inner == 1) {
    const int64_t grain = std::max<int64_t>(1, kElementGrain / 4 / view.axis);
    ParallelFor(threads, view.outer, grain, rows);
    return;
  }
  const int64_t tiles = (view.inner + kTile - 1) / kTile;
  ParallelFor(threads, view.outer * tiles, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t start = i % tiles * kTile;
      tile(i / tiles * view.axis * view.inner + start, std::min(kTile, view.inner - start));
    }
  });
}

// One tile: y = exp(x - max), and the maxima and sums of the columns.
void ExpTile(const AxisView& view, const float* x, int64_t width, float* y, float* largest,
             float* sums) {
  std::copy_n(x, width, largest);
  for (int64_t a = 1; a < view.axis; ++a) {
    const float* row = x + a * view.inner;
    for (int64_t c = 0; c < width; ++c) {
      largest[c] = row[c] > largest[c] ? row[c] : largest[c];
    }
  }
  for (int64_t a = 0; a < view.axis; ++a) {
    const float* from = x + a * view.inner;
    float* to = y + a * view.inner;
    for (int64_t c = 0; c < width; ++c) {
      to[c] = from[c] - largest[c];
    }
    ExpOfFloats(to, width, to);
  }
  SumColumns(y, view.axis, width, view.inner, false, sums);
}

void RunSoftmax(const AxisView& view, int threads, const float* x, float* y) {
  const auto rows = [&](int64_t begin, int64_t end) {
    ExpRows(x, begin, end, view.axis, y, [&](int64_t r, float, float sum) {
      const float scale = 1.0F / sum;
      for (int64_t c = 0; c < view.axis; ++c) {
        y[r * view.axis + c] *= scale;
      }
    });
  };
  const auto tile = [&](int64_t offset, int64_t width) {
    std::array<float, kTile> largest;
    std::array<float, kTile> sums;
    ExpTile(view, x + offset, width, y + offset, largest.data(), sums.data());
    for (int64_t a = 0; a < view.axis; ++a) {
      float* to = y + offset + a * view.inner;
      for (int64_t c = 0; c < width; ++c) {
        to[c] /= sums[static_cast<size_t>(c)];
      }
    }
  };
  ForEachPart(view, threads, rows, tile);
}

void RunLogSoftmax(const AxisView& view, int threads, const float* x, float* y) {
  const auto rows = [&](int64_t begin, int64_t end) {
    ExpRows(x, begin, end, view.axis, y, [&](int64_t r, float largest, float sum) {
      const float log_sum = vec::Log(sum);
      for (int64_t i = r * view.axis; i < (r + 1) * view.axis; ++i) {
        y[i] = (x[i] - largest) - log_sum;
      }
    });
  };
  const auto tile = [&](int64_t offset, int64_t width) {
    std::array<float, kTile> largest;
    std::array<float, kTile> sums;
    ExpTile(view, x + offset, width, y + offset, largest.data(), sums.data());
    for (int64_t c = 0; c < width; ++c) {
      sums[static_cast<size_t>(c)] = std::log(sums[static_cast<size_t>(c)]);
    }
    for (int64_t a = 0; a < view.axis; ++a) {
      const float* from = x + offset + a * view.inner;
      float* to = y + offset + a * view.inner;
      for (int64_t c = 0; c < width; ++c) {
        const auto at = static_cast<size_t>(c);
        to[c] = (from[c] - largest[at]) - sums[at];
      }
    }
  };
  ForEachPart(view, threads, rows, tile);
}

float Dot(const float* a, const float* b, int64_t count) {
  constexpr int64_t kLanes = 8;
  std::array<float, kLanes> lanes{};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      lanes[static_cast<size_t>(lane)] += a[i + lane] * b[i + lane];
    }
  }
  float sum = 0.0F;
  for (const float part : lanes) {
    sum += part;
  }
  for (; i < count; ++i) {
    sum += a[i] * b[i];
  }
  return sum;
}

void RunSoftmaxGrad(const AxisView& view, int threads, const float* dy, const float* y, float* dx) {
  const auto rows = [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t start = r * view.axis;
      const float dot = Dot(dy + start, y + start, view.axis);
      for (int64_t i = start; i < start + view.axis; ++i) {
        dx[i] = y[i] * (dy[i] - dot);
      }
    }
  };
  const auto tile = [&](int64_t offset, int64_t width) {
    std::array<float, kTile> dots{};
    for (int64_t a = 0; a < view.axis; ++a) {
      const int64_t start = offset + a * view.inner;
      for (int64_t c = 0; c < width; ++c) {
        dots[static_cast<size_t>(c)] += dy[start + c] * y[start + c];
      }
    }
    for (int64_t a = 0; a < view.axis; ++a) {
      const int64_t start = offset + a * view.inner;
      for (int64_t c = 0; c < width; ++c) {
        dx[start + c] = y[start + c] * (dy[start + c] - dots[static_cast<size_t>(c)]);
      }
    }
  };
  ForEachPart(view, threads, rows, tile);
}

// exp(y) is made in dx first.
void RunLogSoftmaxGrad(const AxisView& view, int threads, const float* dy, const float* y,
                       float* dx) {
  const auto rows = [&](int64_t begin, int64_t end) {
    ExpOfFloats(y + begin * view.axis, (end - begin) * view.axis, dx + begin * view.axis);
    for (int64_t r = begin; r < end; ++r) {
      const int64_t start = r * view.axis;
      const auto sum = static_cast<float>(SumFloats(dy + start, view.axis));
      for (int64_t i = start; i < start + view.axis; ++i) {
        dx[i] = dy[i] - dx[i] * sum;
      }
    }
  };
  const auto tile = [&](int64_t offset, int64_t width) {
    std::array<float, kTile> sums;
    SumColumns(dy + offset, view.axis, width, view.inner, false, sums.data());
    for (int64_t a = 0; a < view.axis; ++a) {
      const int64_t start = offset + a * view.inner;
      ExpOfFloats(y + start, width, dx + start);
      for (int64_t c = 0; c < width; ++c) {
        dx[start + c] = dy[start + c] - dx[start + c] * sums[static_cast<size_t>(c)];
      }
    }
  };
  ForEachPart(view, threads, rows, tile);
}

template <void (*Run)(const AxisView&, int, const float*, float*), bool InPlace>
Result<Kernel> UnaryCpu(const KernelRequest& request) {
  if (request.inputs[0].dtype != DType::kFloat32) {
    return Unimplemented("softmax has a float32 kernel");
  }
  LS_ASSIGN_OR_RETURN(const AxisView view, ViewOf(request.node, request.inputs[0].shape));
  Kernel kernel;
  kernel.in_place = {InPlace ? 0 : Kernel::kNone};
  kernel.run = [view, threads = request.threads](const KernelArgs& args) {
    Run(view, threads, args.in<float>(0), args.out<float>(0));
    return OkStatus();
  };
  return kernel;
}

template <void (*Run)(const AxisView&, int, const float*, const float*, float*), bool InPlace>
Result<Kernel> GradCpu(const KernelRequest& request) {
  if (request.inputs[0].dtype != DType::kFloat32) {
    return Unimplemented("the gradient of softmax has a float32 kernel");
  }
  LS_ASSIGN_OR_RETURN(const AxisView view, ViewOf(request.node, request.inputs[0].shape));
  Kernel kernel;
  kernel.in_place = {InPlace ? 0 : Kernel::kNone};
  kernel.run = [view, threads = request.threads](const KernelArgs& args) {
    Run(view, threads, args.in<float>(0), args.in<float>(1), args.out<float>(0));
    return OkStatus();
  };
  return kernel;
}

// Calls line(offset of the first element) for every line along the axis.
template <class Line>
void ForEachLine(const AxisView& view, const Line& line) {
  for (int64_t o = 0; o < view.outer; ++o) {
    for (int64_t i = 0; i < view.inner && view.axis > 0; ++i) {
      line(o * view.axis * view.inner + i);
    }
  }
}

template <bool Log>
Status Reference(const ReferenceContext& ctx) {
  LS_ASSIGN_OR_RETURN(const AxisView view, ViewOf(ctx.node, ctx.input_shapes[0]));
  ForEachLine(view, [&](int64_t start) {
    const double* x = ctx.inputs[0].data() + start;
    double* y = ctx.outputs[0].data() + start;
    double largest = x[0];
    for (int64_t a = 0; a < view.axis; ++a) {
      largest = std::max(largest, x[a * view.inner]);
    }
    double sum = 0.0;
    for (int64_t a = 0; a < view.axis; ++a) {
      sum += std::exp(x[a * view.inner] - largest);
    }
    for (int64_t a = 0; a < view.axis; ++a) {
      const double shifted = x[a * view.inner] - largest;
      y[a * view.inner] = Log ? shifted - std::log(sum) : std::exp(shifted) / sum;
    }
  });
  return OkStatus();
}

template <bool Log>
Status GradReference(const ReferenceContext& ctx) {
  LS_ASSIGN_OR_RETURN(const AxisView view, ViewOf(ctx.node, ctx.input_shapes[0]));
  ForEachLine(view, [&](int64_t start) {
    const double* dy = ctx.inputs[0].data() + start;
    const double* y = ctx.inputs[1].data() + start;
    double* dx = ctx.outputs[0].data() + start;
    double sum = 0.0;
    for (int64_t a = 0; a < view.axis * view.inner; a += view.inner) {
      sum += Log ? dy[a] : dy[a] * y[a];
    }
    for (int64_t a = 0; a < view.axis * view.inner; a += view.inner) {
      dx[a] = Log ? dy[a] - std::exp(y[a]) * sum : y[a] * (dy[a] - sum);
    }
  });
  return OkStatus();
}

Status SoftmaxGradient(GradContext& ctx) {
  ctx.SetGrad(0, SoftmaxGrad(ctx, ctx.dy(), ctx.output(), ctx.attrs().GetInt("axis")));
  return OkStatus();
}

Status LogSoftmaxGradient(GradContext& ctx) {
  ctx.SetGrad(0, LogSoftmaxGrad(ctx, ctx.dy(), ctx.output(), ctx.attrs().GetInt("axis")));
  return OkStatus();
}

// With g the gradient of y * (dy - s), s = sum(dy * y):
//   for dy: y * (g - sum(g * y)),  for y: g * (dy - s) - dy * sum(g * y).
Status SoftmaxGradGradient(GradContext& ctx) {
  const int64_t axis = ctx.attrs().GetInt("axis");
  const Value g = ctx.dy();
  const Value dy = ctx.input(0);
  const Value y = ctx.input(1);
  ctx.SetGrad(0, SoftmaxGrad(ctx, g, y, axis));
  const Value sum_dy = ReduceSum(ctx, Mul(ctx, dy, y), {axis}, true);
  const Value sum_g = ReduceSum(ctx, Mul(ctx, g, y), {axis}, true);
  ctx.SetGrad(1, Sub(ctx, Mul(ctx, g, Sub(ctx, dy, sum_dy)), Mul(ctx, dy, sum_g)));
  return OkStatus();
}

// With g the gradient of dy - exp(y) * sum(dy):
//   for dy: g - sum(g * exp(y)),  for y: -g * exp(y) * sum(dy).
Status LogSoftmaxGradGradient(GradContext& ctx) {
  const int64_t axis = ctx.attrs().GetInt("axis");
  const Value g = ctx.dy();
  const Value weighted = Mul(ctx, g, Exp(ctx, ctx.input(1)));
  ctx.SetGrad(0, Sub(ctx, g, ReduceSum(ctx, weighted, {axis}, true)));
  ctx.SetGrad(1, Neg(ctx, Mul(ctx, weighted, ReduceSum(ctx, ctx.input(0), {axis}, true))));
  return OkStatus();
}

AttrMap Axis(int64_t axis) {
  return {{"axis", axis}};
}

std::vector<Sample> Samples() {
  return {
      {.name = "rows", .inputs = {{.shape = {5, 7}}}},
      {.name = "long_row", .inputs = {{.shape = {2, 100}}}, .check_gradient = false},
      {.name = "many_rows", .inputs = {{.shape = {300, 10}}}, .check_gradient = false},
      {.name = "middle_axis", .inputs = {{.shape = {2, 4, 3}}}, .attrs = Axis(1)},
      {.name = "first_axis_wide",
       .inputs = {{.shape = {3, 300}}},
       .attrs = Axis(0),
       .check_gradient = false},
      {.name = "large_values",
       .inputs = {{.shape = {2, 3}, .values = {1000, 999, -1000, 100, -100, 0}}},
       .check_gradient = false},
  };
}

std::vector<Sample> GradSamples() {
  return {
      {.name = "rows", .inputs = {{.shape = {5, 17}}, {.shape = {5, 17}, .low = 0.0, .high = 0.3}}},
      {.name = "middle_axis",
       .inputs = {{.shape = {2, 4, 3}}, {.shape = {2, 4, 3}, .low = -2.0, .high = 0.0}},
       .attrs = Axis(1)},
  };
}

}  // namespace

OpDef SoftmaxDef() {
  return {.name = "Softmax",
          .summary = "exp(x) / sum(exp(x)) along an axis",
          .min_inputs = 1,
          .max_inputs = 1,
          .attrs = {{"axis", AttrType::kInt, int64_t{-1}}},
          .infer = Infer,
          .grad = SoftmaxGradient,
          .cpu = UnaryCpu<RunSoftmax, true>,
          .reference = Reference<false>,
          .samples = Samples};
}

OpDef LogSoftmaxDef() {
  return {.name = "LogSoftmax",
          .summary = "x - log(sum(exp(x))) along an axis",
          .min_inputs = 1,
          .max_inputs = 1,
          .attrs = {{"axis", AttrType::kInt, int64_t{-1}}},
          .infer = Infer,
          .grad = LogSoftmaxGradient,
          .cpu = UnaryCpu<RunLogSoftmax, false>,
          .reference = Reference<true>,
          .samples = Samples};
}

OpDef SoftmaxGradDef() {
  return {.name = "SoftmaxGrad",
          .summary = "the gradient of Softmax from dy and y",
          .min_inputs = 2,
          .max_inputs = 2,
          .attrs = {{"axis", AttrType::kInt, int64_t{-1}}},
          .infer = GradInfer,
          .grad = SoftmaxGradGradient,
          .cpu = GradCpu<RunSoftmaxGrad, true>,
          .reference = GradReference<false>,
          .samples = GradSamples};
}

OpDef LogSoftmaxGradDef() {
  return {.name = "LogSoftmaxGrad",
          .summary = "the gradient of LogSoftmax from dy and y",
          .min_inputs = 2,
          .max_inputs = 2,
          .attrs = {{"axis", AttrType::kInt, int64_t{-1}}},
          .infer = GradInfer,
          .grad = LogSoftmaxGradGradient,
          .cpu = GradCpu<RunLogSoftmaxGrad, false>,
          .reference = GradReference<true>,
          .samples = GradSamples};
}

Value Softmax(BuildContext ctx, Value x, int64_t axis) {
  return ctx.Add("Softmax", {x}, Axis(axis));
}

Value LogSoftmax(BuildContext ctx, Value x, int64_t axis) {
  return ctx.Add("LogSoftmax", {x}, Axis(axis));
}

Value SoftmaxGrad(BuildContext ctx, Value dy, Value y, int64_t axis) {
  return ctx.Add("SoftmaxGrad", {dy, y}, Axis(axis));
}

Value LogSoftmaxGrad(BuildContext ctx, Value dy, Value y, int64_t axis) {
  return ctx.Add("LogSoftmaxGrad", {dy, y}, Axis(axis));
}

}  // namespace lockstep::op
