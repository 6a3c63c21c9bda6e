#include "lockstep/op/reduce_grad.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/graph/grad_context.h"
#include "lockstep/graph/op_def.h"
#include "lockstep/op/internal/parallel.h"
#include "lockstep/op/internal/reduce_view.h"
#include "lockstep/op/reduce.h"

namespace lockstep::op {
namespace {

Result<ReduceView> ViewOf(const Node& node, const Shape& shape) {
  LS_ASSIGN_OR_RETURN(const std::vector<bool> reduced,
                      ReducedAxes(node.attrs.GetInts("axes"), shape.rank()));
  return MakeReduceView(shape, reduced);
}

// Checks that input `small` has the shape that input `full` has after the reduction.
Status InferExpanded(InferContext& ctx, int small, int full) {
  LS_TRY(ctx.ExpectFloating(small));
  LS_TRY(ctx.ExpectSameDType(small, full));
  LS_ASSIGN_OR_RETURN(const std::vector<bool> reduced,
                      ReducedAxes(ctx.attrs().GetInts("axes"), ctx.shape(full).rank()));
  const Shape expected = ReducedShape(ctx.shape(full), reduced, ctx.attrs().GetBool("keep_dims"));
  if (!ctx.shape(small).CompatibleWith(expected)) {
    return InvalidArgument(fmt::format("input {} has the shape {}, expected {}: input {} reduced",
                                       small, ctx.shape(small).ToString(), expected.ToString(),
                                       full));
  }
  ctx.AddOutput(ctx.dtype(full), ctx.shape(full));
  return OkStatus();
}

AttrMap Attrs(std::vector<int64_t> axes, bool keep_dims) {
  return {{"axes", std::move(axes)}, {"keep_dims", keep_dims}};
}

std::vector<AttrDef> AttrDefs() {
  return {{"axes", AttrType::kInts, std::vector<int64_t>()}, {"keep_dims", AttrType::kBool, false}};
}

Status NoGradient(GradContext&) {
  return OkStatus();
}

// ---- ExpandReduced

Status ExpandInfer(InferContext& ctx) {
  return InferExpanded(ctx, 0, 1);
}

Status ExpandGrad(GradContext& ctx) {
  const std::vector<int64_t>& axes = ctx.attrs().GetInts("axes");
  const bool keep_dims = ctx.attrs().GetBool("keep_dims");
  ctx.SetGrad(0, ctx.attrs().GetBool("mean") ? ReduceMean(ctx, ctx.dy(), axes, keep_dims)
                                             : ReduceSum(ctx, ctx.dy(), axes, keep_dims));
  return OkStatus();
}

// Fills y, whose innermost dimension is reduced (equal values) or kept (copied rows).
void Expand(const ReduceView& view, float scale, int threads, const float* dy, float* y) {
  if (view.kept_count == 0 || view.reduced_count == 0) {
    return;
  }
  const bool rows = !view.inner_reduced && !view.kept.empty();
  const int64_t width = rows ? view.kept.back().size : 1;
  const int64_t run = view.inner_reduced ? view.reduced.back().size : 1;
  const int64_t units = view.kept_count / width;
  const int64_t grain =
      std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, view.reduced_count * width));
  ParallelFor(threads, units, grain, [&](int64_t begin, int64_t end) {
    Odometer kept(view.kept, rows);
    kept.Seek(begin);
    for (int64_t i = begin; i < end; ++i, kept.Next()) {
      Odometer reduced(view.reduced, view.inner_reduced);
      const int64_t positions = view.reduced_count / run;
      for (int64_t r = 0; r < positions; ++r, reduced.Next()) {
        float* to = y + kept.offset() + reduced.offset();
        if (rows) {
          for (int64_t c = 0; c < width; ++c) {
            to[c] = dy[i * width + c] * scale;
          }
        } else {
          std::fill_n(to, run, dy[i] * scale);
        }
      }
    }
  });
}

Result<Kernel> ExpandCpu(const KernelRequest& request) {
  if (request.inputs[0].dtype != DType::kFloat32) {
    return Unimplemented("ExpandReduced has a float32 kernel");
  }
  LS_ASSIGN_OR_RETURN(const ReduceView view, ViewOf(request.node, request.outputs[0].shape));
  const bool mean = request.node.attrs.GetBool("mean");
  const float scale = mean ? 1.0F / static_cast<float>(view.reduced_count) : 1.0F;
  Kernel kernel;
  kernel.run = [view, scale, threads = request.threads](const KernelArgs& args) {
    Expand(view, scale, threads, args.in<float>(0), args.out<float>(0));
    return OkStatus();
  };
  return kernel;
}

Status ExpandReference(const ReferenceContext& ctx) {
  LS_ASSIGN_OR_RETURN(const ReduceView view, ViewOf(ctx.node, ctx.output_shapes[0]));
  const double divisor =
      ctx.node.attrs.GetBool("mean") ? static_cast<double>(view.reduced_count) : 1.0;
  Odometer kept(view.kept, false);
  for (int64_t i = 0; i < view.kept_count; ++i, kept.Next()) {
    Odometer reduced(view.reduced, false);
    for (int64_t r = 0; r < view.reduced_count; ++r, reduced.Next()) {
      ctx.outputs[0][static_cast<size_t>(kept.offset() + reduced.offset())] =
          ctx.inputs[0][static_cast<size_t>(i)] / divisor;
    }
  }
  return OkStatus();
}

std::vector<Sample> ExpandSamples() {
  const auto attrs = [](std::vector<int64_t> axes, bool keep_dims, bool mean) {
    AttrMap map = Attrs(std::move(axes), keep_dims);
    map.Set("mean", mean);
    return map;
  };
  const SampleInput like = {.shape = {3, 4, 5}};
  return {
      {.name = "all", .inputs = {{.shape = {}}, like}, .attrs = attrs({}, false, false)},
      {.name = "last_mean", .inputs = {{.shape = {3, 4}}, like}, .attrs = attrs({2}, false, true)},
      {.name = "first", .inputs = {{.shape = {1, 4, 5}}, like}, .attrs = attrs({0}, true, false)},
      {.name = "outer_mean",
       .inputs = {{.shape = {4}}, like},
       .attrs = attrs({0, -1}, false, true)},
      {.name = "middle", .inputs = {{.shape = {3, 5}}, like}, .attrs = attrs({1}, false, false)},
  };
}

// ---- ExtremeShares

Status SharesInfer(InferContext& ctx) {
  return InferExpanded(ctx, 1, 0);
}

template <class T>
void Shares(const ReduceView& view, const T* x, const T* y, T* shares) {
  if (view.reduced_count == 0) {
    return;
  }
  Odometer kept(view.kept, false);
  for (int64_t i = 0; i < view.kept_count; ++i, kept.Next()) {
    const T* group = x + kept.offset();
    const auto matches = [&](int64_t offset) {
      return group[offset] == y[i] || (y[i] != y[i] && group[offset] != group[offset]);
    };
    int64_t ties = 0;
    Odometer reduced(view.reduced, false);
    for (int64_t r = 0; r < view.reduced_count; ++r, reduced.Next()) {
      ties += matches(reduced.offset()) ? 1 : 0;
    }
    const T share = T{1} / static_cast<T>(ties);
    reduced.Seek(0);
    for (int64_t r = 0; r < view.reduced_count; ++r, reduced.Next()) {
      shares[kept.offset() + reduced.offset()] = matches(reduced.offset()) ? share : T{0};
    }
  }
}

Result<Kernel> SharesCpu(const KernelRequest& request) {
  if (request.inputs[0].dtype != DType::kFloat32) {
    return Unimplemented("ExtremeShares has a float32 kernel");
  }
  LS_ASSIGN_OR_RETURN(const ReduceView view, ViewOf(request.node, request.inputs[0].shape));
  Kernel kernel;
  kernel.run = [view](const KernelArgs& args) {
    Shares<float>(view, args.in<float>(0), args.in<float>(1), args.out<float>(0));
    return OkStatus();
  };
  return kernel;
}

Status SharesReference(const ReferenceContext& ctx) {
  LS_ASSIGN_OR_RETURN(const ReduceView view, ViewOf(ctx.node, ctx.input_shapes[0]));
  Shares<double>(view, ctx.inputs[0].data(), ctx.inputs[1].data(), ctx.outputs[0].data());
  return OkStatus();
}

std::vector<Sample> SharesSamples() {
  return {{.name = "ties",
           .inputs = {{.shape = {2, 4}, .values = {1, 3, 3, 0, -1, -2, -1, -1}},
                      {.shape = {2}, .values = {3, -1}}},
           .attrs = Attrs({1}, false),
           .check_gradient = false},
          {.name = "columns",
           .inputs = {{.shape = {2, 3}, .values = {1, 5, 2, 1, 4, 3}},
                      {.shape = {1, 3}, .values = {1, 5, 3}}},
           .attrs = Attrs({0}, true),
           .check_gradient = false}};
}

// ---- ReduceProdGrad

Status ProdGradInfer(InferContext& ctx) {
  return InferExpanded(ctx, 0, 1);
}

// The products of everything before and of everything after an element, times dy.
template <class T>
void ProdGrads(const ReduceView& view, const T* dy, const T* x, T* dx) {
  Odometer kept(view.kept, false);
  for (int64_t i = 0; i < view.kept_count; ++i, kept.Next()) {
    Odometer reduced(view.reduced, false);
    T product = dy[i];
    for (int64_t r = 0; r < view.reduced_count; ++r, reduced.Next()) {
      const int64_t at = kept.offset() + reduced.offset();
      dx[at] = product;
      product *= x[at];
    }
    product = T{1};
    for (int64_t r = view.reduced_count; r-- > 0;) {
      reduced.Seek(r);
      const int64_t at = kept.offset() + reduced.offset();
      dx[at] *= product;
      product *= x[at];
    }
  }
}

Result<Kernel> ProdGradCpu(const KernelRequest& request) {
  if (request.inputs[0].dtype != DType::kFloat32) {
    return Unimplemented("ReduceProdGrad has a float32 kernel");
  }
  LS_ASSIGN_OR_RETURN(const ReduceView view, ViewOf(request.node, request.inputs[1].shape));
  Kernel kernel;
  kernel.run = [view](const KernelArgs& args) {
    ProdGrads<float>(view, args.in<float>(0), args.in<float>(1), args.out<float>(0));
    return OkStatus();
  };
  return kernel;
}

Status ProdGradReference(const ReferenceContext& ctx) {
  LS_ASSIGN_OR_RETURN(const ReduceView view, ViewOf(ctx.node, ctx.input_shapes[1]));
  ProdGrads<double>(view, ctx.inputs[0].data(), ctx.inputs[1].data(), ctx.outputs[0].data());
  return OkStatus();
}

std::vector<Sample> ProdGradSamples() {
  return {{.name = "rows_with_zeros",
           .inputs = {{.shape = {3}, .values = {2, 3, -1}},
                      {.shape = {3, 3}, .values = {0, 2, 3, 0, 0, 5, 1, 2, 3}}},
           .attrs = Attrs({1}, false),
           .check_gradient = false},
          {.name = "outer",
           .inputs = {{.shape = {1, 3, 1}}, {.shape = {2, 3, 4}}},
           .attrs = Attrs({0, 2}, true),
           .check_gradient = false}};
}

}  // namespace

OpDef ExpandReducedDef() {
  OpDef def{.name = "ExpandReduced",
            .summary = "spreads the result of a reduction over the shape before it",
            .min_inputs = 2,
            .max_inputs = 2,
            .attrs = AttrDefs(),
            .infer = ExpandInfer,
            .grad = ExpandGrad,
            .cpu = ExpandCpu,
            .reference = ExpandReference,
            .samples = ExpandSamples,
            .shape_only_inputs = 0b10};
  def.attrs.push_back({"mean", AttrType::kBool, false});
  return def;
}

OpDef ExtremeSharesDef() {
  return {.name = "ExtremeShares",
          .summary = "the gradient of a maximum or minimum: 1 / ties where x equals it",
          .min_inputs = 2,
          .max_inputs = 2,
          .attrs = AttrDefs(),
          .infer = SharesInfer,
          .grad = NoGradient,
          .cpu = SharesCpu,
          .reference = SharesReference,
          .samples = SharesSamples};
}

OpDef ReduceProdGradDef() {
  return {.name = "ReduceProdGrad",
          .summary = "the gradient of ReduceProd",
          .min_inputs = 2,
          .max_inputs = 2,
          .attrs = AttrDefs(),
          .infer = ProdGradInfer,
          .cpu = ProdGradCpu,
          .reference = ProdGradReference,
          .samples = ProdGradSamples};
}

Value ExpandReduced(BuildContext ctx, Value dy, Value like, std::vector<int64_t> axes,
                    bool keep_dims, bool mean) {
  AttrMap attrs = Attrs(std::move(axes), keep_dims);
  attrs.Set("mean", mean);
  return ctx.Add("ExpandReduced", {dy, like}, std::move(attrs));
}

Value ExtremeShares(BuildContext ctx, Value x, Value y, std::vector<int64_t> axes, bool keep_dims) {
  return ctx.Add("ExtremeShares", {x, y}, Attrs(std::move(axes), keep_dims));
}

Value ReduceProdGrad(BuildContext ctx, Value dy, Value x, std::vector<int64_t> axes,
                     bool keep_dims) {
  return ctx.Add("ReduceProdGrad", {dy, x}, Attrs(std::move(axes), keep_dims));
}

}  // namespace lockstep::op
