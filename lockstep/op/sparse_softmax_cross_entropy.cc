#include "lockstep/op/sparse_softmax_cross_entropy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lockstep/graph/grad_context.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/cast.h"
#include "lockstep/op/compare.h"
#include "lockstep/op/const.h"
#include "lockstep/op/internal/label_smoothing.h"
#include "lockstep/op/internal/parallel.h"
#include "lockstep/op/internal/softmax_rows.h"
#include "lockstep/op/reduce.h"
#include "lockstep/op/reduce_grad.h"
#include "lockstep/op/softmax.h"

namespace lockstep::op {
namespace {

// The attributes and sizes that the kernels work with.
struct Settings {
  int64_t rows = 0;
  int64_t classes = 0;
  double smoothing = 0.0;
  int64_t ignore_label = -1;
};

Settings SettingsOf(const Node& node, const Shape& logits) {
  return {logits[0], logits[1], node.attrs.GetFloat("label_smoothing"),
          node.attrs.GetInt("ignore_label")};
}

// Checks input `labels` against the matrix of input `matrix` [N, C].
Status CheckLabels(const InferContext& ctx, int matrix, int labels) {
  LS_TRY(ctx.ExpectFloating(matrix));
  LS_TRY(ctx.ExpectRank(matrix, 2));
  LS_TRY(ctx.ExpectRank(labels, 1));
  if (ctx.dtype(labels) != DType::kInt32 && ctx.dtype(labels) != DType::kInt64) {
    return InvalidArgument(fmt::format("input {}, the labels, is {}, expected int32 or int64",
                                       labels, DTypeName(ctx.dtype(labels))));
  }
  if (!ctx.shape(labels).CompatibleWith(Shape{ctx.shape(matrix)[0]})) {
    return InvalidArgument(fmt::format("{} labels for {} rows", ctx.shape(labels).ToString(),
                                       ctx.shape(matrix).ToString()));
  }
  if (ctx.shape(matrix)[1] == 0) {
    return InvalidArgument(fmt::format("input {} has the shape {}, expected one class or more",
                                       matrix, ctx.shape(matrix).ToString()));
  }
  return CheckLabelSmoothing(ctx.attrs());
}

Status Infer(InferContext& ctx) {
  LS_TRY(CheckLabels(ctx, 0, 1));
  ctx.AddOutput(ctx.dtype(0), Shape{ctx.shape(0)[0]});
  ctx.AddOutput(ctx.dtype(0), ctx.shape(0));
  return OkStatus();
}

Status GradInfer(InferContext& ctx) {
  LS_TRY(CheckLabels(ctx, 1, 2));
  LS_TRY(ctx.ExpectSameDType(0, 1));
  LS_TRY(ctx.ExpectSameShape(0, 2));
  ctx.AddOutput(ctx.dtype(1), ctx.shape(1));
  return OkStatus();
}

Status BadLabel(const Settings& settings, int64_t row, int64_t label) {
  return InvalidArgument(
      fmt::format("row {} has the label {}, allowed are 0 to {}, and {} for a row to ignore", row,
                  label, settings.classes - 1, settings.ignore_label));
}

template <class Label>
Status CheckLabelValues(const Settings& settings, const Label* labels) {
  for (int64_t r = 0; r < settings.rows; ++r) {
    const auto label = static_cast<int64_t>(labels[r]);
    if ((label < 0 || label >= settings.classes) && label != settings.ignore_label) {
      return BadLabel(settings, r, label);
    }
  }
  return OkStatus();
}

// The loss of a row from its shifted logits: z = x - max, sum = the sum of exp(z).
float RowLoss(const Settings& settings, const float* x, float largest, float sum, int64_t label) {
  const float log_sum = vec::Log(sum);
  const float own = log_sum - (x[label] - largest);
  if (settings.smoothing == 0.0) {
    return own;
  }
  const double mean = SumFloats(x, settings.classes) / static_cast<double>(settings.classes);
  return static_cast<float>((1.0 - settings.smoothing) * own +
                            settings.smoothing * (log_sum - (mean - largest)));
}

template <class Label>
Status Run(const Settings& settings, int threads, const KernelArgs& args) {
  const float* logits = args.in<float>(0);
  const Label* labels = args.in<Label>(1);
  float* loss = args.out<float>(0);
  float* probabilities = args.out<float>(1);
  const int64_t classes = settings.classes;
  LS_TRY(CheckLabelValues(settings, labels));
  const int64_t grain = std::max<int64_t>(1, kElementGrain / 4 / classes);
  ParallelFor(threads, settings.rows, grain, [&](int64_t begin, int64_t end) {
    const auto finish = [&](int64_t r, float largest, float sum) {
      const auto label = static_cast<int64_t>(labels[r]);
      loss[r] = label == settings.ignore_label
                    ? 0.0F
                    : RowLoss(settings, logits + r * classes, largest, sum, label);
      const float scale = 1.0F / sum;
      for (int64_t c = 0; c < classes; ++c) {
        probabilities[r * classes + c] *= scale;
      }
    };
    ExpRows(logits, begin, end, classes, probabilities, finish);
  });
  return OkStatus();
}

template <class Label>
Status RunGrad(const Settings& settings, int threads, const KernelArgs& args) {
  const float* dloss = args.in<float>(0);
  const float* probabilities = args.in<float>(1);
  const Label* labels = args.in<Label>(2);
  float* dlogits = args.out<float>(0);
  const int64_t classes = settings.classes;
  LS_TRY(CheckLabelValues(settings, labels));
  const auto others = static_cast<float>(settings.smoothing / static_cast<double>(classes));
  const auto own = static_cast<float>(1.0 - settings.smoothing);
  const int64_t grain = std::max<int64_t>(1, kElementGrain / classes);
  ParallelFor(threads, settings.rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const auto label = static_cast<int64_t>(labels[r]);
      const float* from = probabilities + r * classes;
      float* to = dlogits + r * classes;
      if (label == settings.ignore_label) {
        std::fill_n(to, classes, 0.0F);
        continue;
      }
      const float factor = dloss[r];
      const float at_label = (from[label] - others - own) * factor;
      for (int64_t c = 0; c < classes; ++c) {
        to[c] = (from[c] - others) * factor;
      }
      to[label] = at_label;
    }
  });
  return OkStatus();
}

template <Status (*Run32)(const Settings&, int, const KernelArgs&),
          Status (*Run64)(const Settings&, int, const KernelArgs&)>
Result<Kernel> MakeKernel(const KernelRequest& request, const TensorDesc& matrix, DType labels) {
  if (matrix.dtype != DType::kFloat32) {
    return Unimplemented("SparseSoftmaxCrossEntropyWithLogits has a float32 kernel");
  }
  const Settings settings = SettingsOf(request.node, matrix.shape);
  const bool narrow = labels == DType::kInt32;
  Kernel kernel;
  kernel.run = [settings, narrow, threads = request.threads](const KernelArgs& args) {
    return narrow ? Run32(settings, threads, args) : Run64(settings, threads, args);
  };
  return kernel;
}

Result<Kernel> Cpu(const KernelRequest& request) {
  LS_ASSIGN_OR_RETURN(Kernel kernel, (MakeKernel<Run<int32_t>, Run<int64_t>>(
                                         request, request.inputs[0], request.inputs[1].dtype)));
  return kernel;
}

Result<Kernel> GradCpu(const KernelRequest& request) {
  LS_ASSIGN_OR_RETURN(Kernel kernel, (MakeKernel<RunGrad<int32_t>, RunGrad<int64_t>>(
                                         request, request.inputs[1], request.inputs[2].dtype)));
  kernel.in_place = {1};
  return kernel;
}

// The label of a row for a reference; the ignored one is returned as such.
Result<int64_t> LabelOf(const Settings& settings, std::span<const double> labels, int64_t row) {
  const auto label = static_cast<int64_t>(labels[static_cast<size_t>(row)]);
  if ((label < 0 || label >= settings.classes) && label != settings.ignore_label) {
    return BadLabel(settings, row, label);
  }
  return label;
}

double Target(const Settings& settings, int64_t c, int64_t label) {
  return (c == label ? 1.0 - settings.smoothing : 0.0) +
         settings.smoothing / static_cast<double>(settings.classes);
}

Status Reference(const ReferenceContext& ctx) {
  const Settings settings = SettingsOf(ctx.node, ctx.input_shapes[0]);
  for (int64_t r = 0; r < settings.rows; ++r) {
    LS_ASSIGN_OR_RETURN(const int64_t label, LabelOf(settings, ctx.inputs[1], r));
    const double* x = ctx.inputs[0].data() + r * settings.classes;
    double* p = ctx.outputs[1].data() + r * settings.classes;
    const double largest = *std::max_element(x, x + settings.classes);
    double sum = 0.0;
    for (int64_t c = 0; c < settings.classes; ++c) {
      p[c] = std::exp(x[c] - largest);
      sum += p[c];
    }
    double loss = 0.0;
    for (int64_t c = 0; c < settings.classes; ++c) {
      p[c] /= sum;
      loss -= Target(settings, c, label) * (x[c] - largest - std::log(sum));
    }
    ctx.outputs[0][static_cast<size_t>(r)] = label == settings.ignore_label ? 0.0 : loss;
  }
  return OkStatus();
}

Status GradReference(const ReferenceContext& ctx) {
  const Settings settings = SettingsOf(ctx.node, ctx.input_shapes[1]);
  for (int64_t r = 0; r < settings.rows; ++r) {
    LS_ASSIGN_OR_RETURN(const int64_t label, LabelOf(settings, ctx.inputs[2], r));
    const double dloss =
        label == settings.ignore_label ? 0.0 : ctx.inputs[0][static_cast<size_t>(r)];
    for (int64_t c = 0; c < settings.classes; ++c) {
      const auto at = static_cast<size_t>(r * settings.classes + c);
      ctx.outputs[0][at] = dloss * (ctx.inputs[1][at] - Target(settings, c, label));
    }
  }
  return OkStatus();
}

Status Gradient(GradContext& ctx) {
  const Value probabilities = ctx.output(1);
  Value dlogits;
  if (ctx.dy(0).valid()) {
    dlogits = SparseSoftmaxCrossEntropyGrad(ctx, ctx.dy(0), probabilities, ctx.input(1),
                                            ctx.attrs().GetFloat("label_smoothing"),
                                            ctx.attrs().GetInt("ignore_label"));
  }
  if (ctx.dy(1).valid()) {
    const Value through = SoftmaxGrad(ctx, ctx.dy(1), probabilities);
    dlogits = dlogits.valid() ? Add(ctx, dlogits, through) : through;
  }
  ctx.SetGrad(0, dlogits);
  return OkStatus();
}

// With g the gradient of dloss * (p - q): for dloss sum_c g * (p - q), for p g * dloss; both 0 in
// ignored rows.
Status GradGradient(GradContext& ctx) {
  const Value g = ctx.dy();
  const Value labels = ctx.input(2);
  const auto ignored = static_cast<double>(ctx.attrs().GetInt("ignore_label"));
  const Value counts =
      Cast(ctx, NotEqual(ctx, labels, ScalarLike(ctx, ignored, labels)), ctx.input(0).dtype());
  const Value differences = SparseSoftmaxCrossEntropyGrad(ctx, counts, ctx.input(1), labels,
                                                          ctx.attrs().GetFloat("label_smoothing"),
                                                          ctx.attrs().GetInt("ignore_label"));
  ctx.SetGrad(0, ReduceSum(ctx, Mul(ctx, g, differences), {1}));
  const Value dloss = ExpandReduced(ctx, Mul(ctx, ctx.input(0), counts), g, {1}, false, false);
  ctx.SetGrad(1, Mul(ctx, g, dloss));
  return OkStatus();
}

std::vector<AttrDef> AttrDefs() {
  return {{"label_smoothing", AttrType::kFloat, 0.0},
          {"ignore_label", AttrType::kInt, int64_t{-1}}};
}

AttrMap Attrs(double label_smoothing, int64_t ignore_label) {
  return {{"label_smoothing", label_smoothing}, {"ignore_label", ignore_label}};
}

SampleInput Labels(std::vector<double> values, DType dtype = DType::kInt64) {
  return {.shape = {static_cast<int64_t>(values.size())}, .dtype = dtype, .values = values};
}

std::vector<Sample> Samples() {
  const SampleInput logits = {.shape = {5, 7}, .low = -4.0, .high = 4.0};
  return {
      {.name = "plain", .inputs = {logits, Labels({3, 0, 6, 2, 2})}},
      {.name = "int32", .inputs = {logits, Labels({3, 0, 6, 2, 2}, DType::kInt32)}},
      {.name = "smoothing", .inputs = {logits, Labels({3, 0, 6, 2, 2})}, .attrs = Attrs(0.1, -1)},
      {.name = "ignored", .inputs = {logits, Labels({3, -1, 6, -1, 2})}, .attrs = Attrs(0.1, -1)},
      {.name = "ignored_class", .inputs = {logits, Labels({3, 0, 6, 2, 2})}, .attrs = Attrs(0, 2)},
      {.name = "large_logits",
       .inputs = {{.shape = {2, 3}, .values = {1000, 999, -1000, 100, -100, 0}}, Labels({1, 0})},
       .check_gradient = false},
  };
}

std::vector<Sample> GradSamples() {
  const SampleInput p = {.shape = {5, 7}, .low = 0.0, .high = 0.3};
  return {
      {.name = "plain", .inputs = {{.shape = {5}}, p, Labels({3, 0, 6, 2, 2})}},
      {.name = "ignored",
       .inputs = {{.shape = {5}}, p, Labels({3, -1, 6, -1, 2}, DType::kInt32)},
       .attrs = Attrs(0.1, -1)},
  };
}

}  // namespace

OpDef SparseSoftmaxCrossEntropyWithLogitsDef() {
  return {.name = "SparseSoftmaxCrossEntropyWithLogits",
          .summary = "cross entropy of softmax(logits) and one class per row",
          .min_inputs = 2,
          .max_inputs = 2,
          .attrs = AttrDefs(),
          .infer = Infer,
          .grad = Gradient,
          .cpu = Cpu,
          .reference = Reference,
          .samples = Samples};
}

OpDef SparseSoftmaxCrossEntropyGradDef() {
  return {.name = "SparseSoftmaxCrossEntropyGrad",
          .summary = "the gradient of SparseSoftmaxCrossEntropyWithLogits",
          .min_inputs = 3,
          .max_inputs = 3,
          .attrs = AttrDefs(),
          .infer = GradInfer,
          .grad = GradGradient,
          .cpu = GradCpu,
          .reference = GradReference,
          .samples = GradSamples};
}

CrossEntropy SparseSoftmaxCrossEntropyWithLogits(BuildContext ctx, Value logits, Value labels,
                                                 double label_smoothing, int64_t ignore_label) {
  const Value loss = ctx.Add("SparseSoftmaxCrossEntropyWithLogits", {logits, labels},
                             Attrs(label_smoothing, ignore_label));
  return {loss, loss.valid() ? loss.node->output(1) : Value{}};
}

Value SparseSoftmaxCrossEntropyGrad(BuildContext ctx, Value dloss, Value probabilities,
                                    Value labels, double label_smoothing, int64_t ignore_label) {
  return ctx.Add("SparseSoftmaxCrossEntropyGrad", {dloss, probabilities, labels},
                 Attrs(label_smoothing, ignore_label));
}

}  // namespace lockstep::op
