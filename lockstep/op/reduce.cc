#include "lockstep/op/reduce.h"

#include <algorithm>
#include <array>
#include <limits>

#include "lockstep/graph/grad_context.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/internal/parallel.h"
#include "lockstep/op/internal/reduce_view.h"
#include "lockstep/op/internal/sum.h"
#include "lockstep/op/reduce_grad.h"

namespace lockstep::op {
namespace {

constexpr int64_t kLanes = 32;

struct SumRule {
  template <class T>
  static constexpr T kIdentity = T{0};

  template <class T>
  static T Combine(T a, T b) {
    return static_cast<T>(a + b);
  }
};

struct ProdRule {
  template <class T>
  static constexpr T kIdentity = T{1};

  template <class T>
  static T Combine(T a, T b) {
    return static_cast<T>(a * b);
  }
};

struct MaxRule {
  template <class T>
  static constexpr T kIdentity = std::numeric_limits<T>::has_infinity
                                     ? -std::numeric_limits<T>::infinity()
                                     : std::numeric_limits<T>::lowest();

  // A NaN on either side wins.
  template <class T>
  static T Combine(T a, T b) {
    const T larger = a > b ? a : b;
    return a != a ? a : larger;
  }
};

struct MinRule {
  template <class T>
  static constexpr T kIdentity = std::numeric_limits<T>::has_infinity
                                     ? std::numeric_limits<T>::infinity()
                                     : std::numeric_limits<T>::max();

  template <class T>
  static T Combine(T a, T b) {
    const T smaller = a < b ? a : b;
    return a != a ? a : smaller;
  }
};

// Integer sums and products wrap around, as NumPy's do: computed without a sign.
template <class T>
using Wrapping = std::conditional_t<std::is_same_v<T, int32_t>, uint32_t,
                                    std::conditional_t<std::is_same_v<T, int64_t>, uint64_t, T>>;

template <class Rule, class T>
T ReduceRun(const T* x, int64_t count) {
  if constexpr (std::is_same_v<Rule, SumRule> && std::is_same_v<T, float>) {
    return static_cast<float>(SumFloats(x, count));
  }
  std::array<T, kLanes> lanes;
  lanes.fill(Rule::template kIdentity<T>);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      T& part = lanes[static_cast<size_t>(lane)];
      part = Rule::template Combine<T>(part, x[i + lane]);
    }
  }
  T result = Rule::template kIdentity<T>;
  for (const T part : lanes) {
    result = Rule::template Combine<T>(result, part);
  }
  for (; i < count; ++i) {
    result = Rule::template Combine<T>(result, x[i]);
  }
  return result;
}

template <class Rule, class T>
void ReduceColumns(const T* x, int64_t rows, int64_t columns, int64_t row_stride, bool accumulate,
                   T* y) {
  if constexpr (std::is_same_v<Rule, SumRule> && std::is_same_v<T, float>) {
    SumColumns(x, rows, columns, row_stride, accumulate, y);
  } else {
    if (!accumulate) {
      std::fill_n(y, columns, Rule::template kIdentity<T>);
    }
    for (int64_t r = 0; r < rows; ++r) {
      const T* row = x + r * row_stride;
      for (int64_t c = 0; c < columns; ++c) {
        y[c] = Rule::template Combine<T>(y[c], row[c]);
      }
    }
  }
}

// The innermost dimension is reduced: one value for each position of the kept ones.
template <class Rule, class T>
void ReduceInner(const ReduceView& view, int threads, const T* x, T* y) {
  const int64_t run = view.reduced.back().size;
  const int64_t grain =
      std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, view.reduced_count));
  ParallelFor(threads, view.kept_count, grain, [&](int64_t begin, int64_t end) {
    Odometer kept(view.kept, false);
    kept.Seek(begin);
    for (int64_t i = begin; i < end; ++i, kept.Next()) {
      Odometer reduced(view.reduced, true);
      const int64_t runs = reduced.positions();
      using Total = std::conditional_t<std::is_same_v<T, float>, double, T>;
      Total total = Rule::template kIdentity<Total>;
      for (int64_t r = 0; r < runs; ++r, reduced.Next()) {
        const T part = ReduceRun<Rule, T>(x + kept.offset() + reduced.offset(), run);
        total = Rule::template Combine<Total>(total, part);
      }
      y[i] = static_cast<T>(total);
    }
  });
}

// The innermost dimension is kept: rows are combined element by element.
template <class Rule, class T>
void ReduceOuter(const ReduceView& view, int threads, const T* x, T* y) {
  const int64_t columns = view.kept.back().size;
  // Wide enough for vectors, narrow enough to share one row among threads.
  constexpr int64_t kTileColumns = 256;
  const int64_t tiles = (columns + kTileColumns - 1) / kTileColumns;
  const int64_t units = view.kept_count / columns * tiles;
  const int64_t unit_work = std::min(columns, kTileColumns) * view.reduced_count;
  const int64_t grain = std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, unit_work));
  const ReduceView::Dim rows =
      view.reduced.empty() ? ReduceView::Dim{1, columns} : view.reduced.back();
  ParallelFor(threads, units, grain, [&](int64_t begin, int64_t end) {
    Odometer kept(view.kept, true);
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t row = unit / tiles;
      const int64_t start = unit % tiles * kTileColumns;
      const int64_t width = std::min(kTileColumns, columns - start);
      kept.Seek(row);
      Odometer reduced(view.reduced, true);
      const int64_t blocks = view.reduced.empty() ? 1 : reduced.positions();
      for (int64_t block = 0; block < blocks; ++block, reduced.Next()) {
        ReduceColumns<Rule, T>(x + kept.offset() + reduced.offset() + start, rows.size, width,
                               rows.stride, block > 0, y + row * columns + start);
      }
    }
  });
}

template <class Rule, class T>
void ReduceAll(const ReduceView& view, int threads, const T* x, T* y) {
  if (view.kept_count == 0) {
    return;
  }
  if (view.reduced_count == 0) {
    std::fill_n(y, view.kept_count, Rule::template kIdentity<T>);
  } else if (view.kept.empty() && view.reduced.empty()) {
    y[0] = x[0];
  } else if (view.inner_reduced) {
    ReduceInner<Rule, T>(view, threads, x, y);
  } else {
    ReduceOuter<Rule, T>(view, threads, x, y);
  }
}

Status Infer(InferContext& ctx) {
  if (ctx.dtype(0) == DType::kBool) {
    return InvalidArgument("input 0 is bool, expected a number type");
  }
  LS_ASSIGN_OR_RETURN(const std::vector<bool> reduced,
                      ReducedAxes(ctx.attrs().GetInts("axes"), ctx.shape(0).rank()));
  ctx.AddOutput(ctx.dtype(0),
                ReducedShape(ctx.shape(0), reduced, ctx.attrs().GetBool("keep_dims")));
  return OkStatus();
}

Status InferMean(InferContext& ctx) {
  LS_TRY(ctx.ExpectFloating(0));
  return Infer(ctx);
}

struct Reduction {
  ReduceView view;
  // All axes are reduced, so the order of the elements does not matter.
  bool all = false;
};

Result<Reduction> ViewOf(const Node& node, const Shape& shape) {
  LS_ASSIGN_OR_RETURN(const std::vector<bool> reduced,
                      ReducedAxes(node.attrs.GetInts("axes"), shape.rank()));
  return Reduction{MakeReduceView(shape, reduced),
                   std::all_of(reduced.begin(), reduced.end(), [](bool r) { return r; })};
}

template <class Rule, class T, bool Mean = false>
Kernel MakeKernel(const KernelRequest& request, const Reduction& reduction) {
  Kernel kernel;
  const TensorDesc& x = request.inputs[0];
  const bool keep_layout = reduction.all && x.layout.is_dense_for(x.shape);
  kernel.input_layouts = {keep_layout ? x.layout : Layout()};
  const int threads = request.threads;
  kernel.run = [view = reduction.view, threads](const KernelArgs& args) {
    using Work = std::conditional_t<std::is_same_v<Rule, SumRule> || std::is_same_v<Rule, ProdRule>,
                                    Wrapping<T>, T>;
    Work* y = args.out<Work>(0);
    ReduceAll<Rule, Work>(view, threads, args.in<Work>(0), y);
    if constexpr (Mean) {
      const auto count = static_cast<Work>(view.reduced_count);
      for (int64_t i = 0; i < view.kept_count; ++i) {
        y[i] /= count;
      }
    }
    return OkStatus();
  };
  return kernel;
}

template <class Rule, bool Mean = false>
Result<Kernel> Cpu(const KernelRequest& request) {
  LS_ASSIGN_OR_RETURN(const Reduction reduction, ViewOf(request.node, request.inputs[0].shape));
  switch (request.inputs[0].dtype) {
    case DType::kFloat32:
      return MakeKernel<Rule, float, Mean>(request, reduction);
    case DType::kInt32:
      return MakeKernel<Rule, int32_t>(request, reduction);
    case DType::kInt64:
      return MakeKernel<Rule, int64_t>(request, reduction);
    case DType::kUInt8:
      return MakeKernel<Rule, uint8_t>(request, reduction);
    default:
      return Unimplemented("reductions have float32, int32, int64 and uint8 kernels");
  }
}

template <class Rule, bool Mean = false>
Status Reference(const ReferenceContext& ctx) {
  LS_ASSIGN_OR_RETURN(const Reduction reduction, ViewOf(ctx.node, ctx.input_shapes[0]));
  const ReduceView& view = reduction.view;
  Odometer kept(view.kept, false);
  for (int64_t i = 0; i < view.kept_count; ++i, kept.Next()) {
    double total = Rule::template kIdentity<double>;
    Odometer reduced(view.reduced, false);
    for (int64_t r = 0; r < view.reduced_count; ++r, reduced.Next()) {
      const auto at = static_cast<size_t>(kept.offset() + reduced.offset());
      total = Rule::template Combine<double>(total, ctx.inputs[0][at]);
    }
    ctx.outputs[0][static_cast<size_t>(i)] =
        Mean ? total / static_cast<double>(view.reduced_count) : total;
  }
  return OkStatus();
}

Status SumGrad(GradContext& ctx) {
  ctx.SetGrad(0, ExpandReduced(ctx, ctx.dy(), ctx.input(0), ctx.attrs().GetInts("axes"),
                               ctx.attrs().GetBool("keep_dims"), false));
  return OkStatus();
}

Status MeanGrad(GradContext& ctx) {
  ctx.SetGrad(0, ExpandReduced(ctx, ctx.dy(), ctx.input(0), ctx.attrs().GetInts("axes"),
                               ctx.attrs().GetBool("keep_dims"), true));
  return OkStatus();
}

Status ExtremeGrad(GradContext& ctx) {
  const std::vector<int64_t>& axes = ctx.attrs().GetInts("axes");
  const bool keep_dims = ctx.attrs().GetBool("keep_dims");
  const Value shares = ExtremeShares(ctx, ctx.input(0), ctx.output(0), axes, keep_dims);
  const Value spread = ExpandReduced(ctx, ctx.dy(), ctx.input(0), axes, keep_dims, false);
  ctx.SetGrad(0, Mul(ctx, spread, shares));
  return OkStatus();
}

Status ProdGrad(GradContext& ctx) {
  ctx.SetGrad(0, ReduceProdGrad(ctx, ctx.dy(), ctx.input(0), ctx.attrs().GetInts("axes"),
                                ctx.attrs().GetBool("keep_dims")));
  return OkStatus();
}

AttrMap Attrs(std::vector<int64_t> axes, bool keep_dims) {
  return {{"axes", std::move(axes)}, {"keep_dims", keep_dims}};
}

std::vector<Sample> FloatSamples() {
  const SampleInput x = {.shape = {3, 4, 5, 2}};
  return {
      {.name = "all", .inputs = {x}, .attrs = Attrs({}, false)},
      {.name = "all_keep_dims", .inputs = {x}, .attrs = Attrs({}, true)},
      {.name = "last", .inputs = {x}, .attrs = Attrs({-1}, false)},
      {.name = "first", .inputs = {x}, .attrs = Attrs({0}, true)},
      {.name = "outer_and_inner", .inputs = {x}, .attrs = Attrs({0, 3}, false)},
      {.name = "alternating", .inputs = {x}, .attrs = Attrs({0, 2}, false)},
      {.name = "unit_axis", .inputs = {{.shape = {4, 1, 3}}}, .attrs = Attrs({1}, false)},
      {.name = "scalar", .inputs = {{.shape = {}}}, .attrs = Attrs({}, false)},
  };
}

std::vector<Sample> SumSamples() {
  std::vector<Sample> samples = FloatSamples();
  samples.push_back({.name = "long_run",
                     .inputs = {{.shape = {2, 5001}}},
                     .attrs = Attrs({1}, false),
                     .check_gradient = false});
  samples.push_back({.name = "narrow_columns",
                     .inputs = {{.shape = {1031, 10}}},
                     .attrs = Attrs({0}, false),
                     .check_gradient = false});
  samples.push_back({.name = "wide_columns",
                     .inputs = {{.shape = {7, 1100}}},
                     .attrs = Attrs({0}, false),
                     .check_gradient = false});
  return samples;
}

std::vector<Sample> NumberSamples(std::vector<Sample> samples) {
  for (const DType dtype : {DType::kInt32, DType::kInt64, DType::kUInt8}) {
    samples.push_back({.name = std::string(DTypeName(dtype)),
                       .inputs = {{.shape = {3, 70}, .dtype = dtype, .low = 0, .high = 3}},
                       .attrs = Attrs({0}, false),
                       .check_gradient = false});
  }
  return samples;
}

std::vector<Sample> SumSamplesOfAllTypes() {
  return NumberSamples(SumSamples());
}

std::vector<Sample> ExtremeSamples() {
  return NumberSamples(FloatSamples());
}

std::vector<Sample> ProdSamples() {
  std::vector<Sample> samples = NumberSamples({});
  for (const Sample& sample : FloatSamples()) {
    samples.push_back(sample);
    samples.back().inputs[0].low = 0.8;
    samples.back().inputs[0].high = 1.3;
  }
  samples.push_back({.name = "zeros",
                     .inputs = {{.shape = {3, 3}, .values = {0, 2, 3, 0, 0, 5, 1, 2, 3}}},
                     .attrs = Attrs({1}, false)});
  return samples;
}

OpDef ReduceDef(OpDef def) {
  def.min_inputs = 1;
  def.max_inputs = 1;
  def.attrs = {{"axes", AttrType::kInts, std::vector<int64_t>()},
               {"keep_dims", AttrType::kBool, false}};
  if (def.infer == nullptr) {
    def.infer = Infer;
  }
  return def;
}

}  // namespace

OpDef ReduceSumDef() {
  return ReduceDef({.name = "ReduceSum",
                    .summary = "sum over axes",
                    .grad = SumGrad,
                    .cpu = Cpu<SumRule>,
                    .reference = Reference<SumRule>,
                    .samples = SumSamplesOfAllTypes});
}

OpDef ReduceMeanDef() {
  return ReduceDef({.name = "ReduceMean",
                    .summary = "mean over axes",
                    .infer = InferMean,
                    .grad = MeanGrad,
                    .cpu = Cpu<SumRule, true>,
                    .reference = Reference<SumRule, true>,
                    .samples = SumSamples});
}

OpDef ReduceMaxDef() {
  return ReduceDef({.name = "ReduceMax",
                    .summary = "maximum over axes",
                    .grad = ExtremeGrad,
                    .cpu = Cpu<MaxRule>,
                    .reference = Reference<MaxRule>,
                    .samples = ExtremeSamples});
}

OpDef ReduceMinDef() {
  return ReduceDef({.name = "ReduceMin",
                    .summary = "minimum over axes",
                    .grad = ExtremeGrad,
                    .cpu = Cpu<MinRule>,
                    .reference = Reference<MinRule>,
                    .samples = ExtremeSamples});
}

OpDef ReduceProdDef() {
  return ReduceDef({.name = "ReduceProd",
                    .summary = "product over axes",
                    .grad = ProdGrad,
                    .cpu = Cpu<ProdRule>,
                    .reference = Reference<ProdRule>,
                    .samples = ProdSamples});
}

Value ReduceSum(BuildContext ctx, Value x, std::vector<int64_t> axes, bool keep_dims) {
  return ctx.Add("ReduceSum", {x}, Attrs(std::move(axes), keep_dims));
}

Value ReduceMean(BuildContext ctx, Value x, std::vector<int64_t> axes, bool keep_dims) {
  return ctx.Add("ReduceMean", {x}, Attrs(std::move(axes), keep_dims));
}

Value ReduceMax(BuildContext ctx, Value x, std::vector<int64_t> axes, bool keep_dims) {
  return ctx.Add("ReduceMax", {x}, Attrs(std::move(axes), keep_dims));
}

Value ReduceMin(BuildContext ctx, Value x, std::vector<int64_t> axes, bool keep_dims) {
  return ctx.Add("ReduceMin", {x}, Attrs(std::move(axes), keep_dims));
}

Value ReduceProd(BuildContext ctx, Value x, std::vector<int64_t> axes, bool keep_dims) {
  return ctx.Add("ReduceProd", {x}, Attrs(std::move(axes), keep_dims));
}

}  // namespace lockstep::op
