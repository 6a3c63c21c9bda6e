#include "lockstep/op/softmax_cross_entropy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lockstep/graph/grad_context.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/broadcast_like.h"
#include "lockstep/op/const.h"
#include "lockstep/op/internal/label_smoothing.h"
#include "lockstep/op/internal/parallel.h"
#include "lockstep/op/internal/softmax_rows.h"
#include "lockstep/op/reduce.h"
#include "lockstep/op/reduce_grad.h"
#include "lockstep/op/softmax.h"

namespace lockstep::op {
namespace {

struct Settings {
  int64_t rows = 0;
  int64_t classes = 0;
  double smoothing = 0.0;

  double keep() const { return 1.0 - smoothing; }

  double spread() const { return smoothing / static_cast<double>(classes); }
};

Settings SettingsOf(const Node& node, const Shape& logits) {
  return {logits[0], logits[1], node.attrs.GetFloat("label_smoothing")};
}

Status CheckMatrices(const InferContext& ctx, int matrix, int labels) {
  LS_TRY(ctx.ExpectFloating(matrix));
  LS_TRY(ctx.ExpectRank(matrix, 2));
  LS_TRY(ctx.ExpectSameDType(labels, matrix));
  LS_TRY(ctx.ExpectSameShape(labels, matrix));
  if (ctx.shape(matrix)[1] == 0) {
    return InvalidArgument(fmt::format("input {} has the shape {}, expected one class or more",
                                       matrix, ctx.shape(matrix).ToString()));
  }
  return CheckLabelSmoothing(ctx.attrs());
}

Status Infer(InferContext& ctx) {
  LS_TRY(CheckMatrices(ctx, 0, 1));
  ctx.AddOutput(ctx.dtype(0), Shape{ctx.shape(0)[0]});
  ctx.AddOutput(ctx.dtype(0), ctx.shape(0));
  return OkStatus();
}

Status GradInfer(InferContext& ctx) {
  LS_TRY(CheckMatrices(ctx, 1, 2));
  LS_TRY(ctx.ExpectSameDType(0, 1));
  LS_TRY(ctx.ExpectRank(0, 1));
  const Shape& losses = ctx.shape(0);
  if (!losses.CompatibleWith(Shape{ctx.shape(1)[0]})) {
    return InvalidArgument(fmt::format("input 0 has the shape {} for {} rows", losses.ToString(),
                                       ctx.shape(1).ToString()));
  }
  ctx.AddOutput(ctx.dtype(1), ctx.shape(1));
  return OkStatus();
}

// sum_c q_c * (log_sum - (x_c - largest)).
template <class T>
T RowLoss(const Settings& settings, const T* x, const T* labels, T largest, T log_sum) {
  const T keep = static_cast<T>(settings.keep());
  const T spread = static_cast<T>(settings.spread());
  double loss = 0.0;
  for (int64_t c = 0; c < settings.classes; ++c) {
    const T q = keep * labels[c] + spread;
    // An impossible class with no share adds nothing, even where its log is infinite.
    loss += q == T{0} ? T{0} : q * (log_sum - (x[c] - largest));
  }
  return static_cast<T>(loss);
}

// dloss * (p * sum(q) - q). `labels_sum` is the sum of the row's labels.
template <class T>
void RowGrad(const Settings& settings, T dloss, const T* p, const T* labels, double labels_sum,
             T* dx) {
  const T keep = static_cast<T>(settings.keep());
  const T spread = static_cast<T>(settings.spread());
  const T total = static_cast<T>(settings.keep() * labels_sum + settings.smoothing);
  for (int64_t c = 0; c < settings.classes; ++c) {
    dx[c] = dloss * (p[c] * total - (keep * labels[c] + spread));
  }
}

void Run(const Settings& settings, int threads, const KernelArgs& args) {
  const float* logits = args.in<float>(0);
  const float* labels = args.in<float>(1);
  float* loss = args.out<float>(0);
  float* probabilities = args.out<float>(1);
  const int64_t classes = settings.classes;
  const int64_t grain = std::max<int64_t>(1, kElementGrain / 4 / classes);
  ParallelFor(threads, settings.rows, grain, [&](int64_t begin, int64_t end) {
    const auto finish = [&](int64_t r, float largest, float sum) {
      const int64_t start = r * classes;
      loss[r] = RowLoss(settings, logits + start, labels + start, largest, vec::Log(sum));
      const float scale = 1.0F / sum;
      for (int64_t c = 0; c < classes; ++c) {
        probabilities[start + c] *= scale;
      }
    };
    ExpRows(logits, begin, end, classes, probabilities, finish);
  });
}

void RunGrad(const Settings& settings, int threads, const KernelArgs& args) {
  const int64_t classes = settings.classes;
  const int64_t grain = std::max<int64_t>(1, kElementGrain / classes);
  ParallelFor(threads, settings.rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const float* labels = args.in<float>(2) + r * classes;
      RowGrad(settings, args.in<float>(0)[r], args.in<float>(1) + r * classes, labels,
              SumFloats(labels, classes), args.out<float>(0) + r * classes);
    }
  });
}

template <void (*Body)(const Settings&, int, const KernelArgs&)>
Kernel MakeKernel(const KernelRequest& request, const Shape& matrix) {
  Kernel kernel;
  kernel.run = [settings = SettingsOf(request.node, matrix),
                threads = request.threads](const KernelArgs& args) {
    Body(settings, threads, args);
    return OkStatus();
  };
  return kernel;
}

Result<Kernel> Cpu(const KernelRequest& request) {
  if (request.inputs[0].dtype != DType::kFloat32) {
    return Unimplemented("SoftmaxCrossEntropyWithLogits has a float32 kernel");
  }
  return MakeKernel<Run>(request, request.inputs[0].shape);
}

Result<Kernel> GradCpu(const KernelRequest& request) {
  if (request.inputs[0].dtype != DType::kFloat32) {
    return Unimplemented("SoftmaxCrossEntropyGrad has a float32 kernel");
  }
  Kernel kernel = MakeKernel<RunGrad>(request, request.inputs[1].shape);
  kernel.in_place = {1};
  return kernel;
}

Status Reference(const ReferenceContext& ctx) {
  const Settings settings = SettingsOf(ctx.node, ctx.input_shapes[0]);
  for (int64_t r = 0; r < settings.rows; ++r) {
    const double* x = ctx.inputs[0].data() + r * settings.classes;
    double* p = ctx.outputs[1].data() + r * settings.classes;
    const double largest = *std::max_element(x, x + settings.classes);
    double sum = 0.0;
    for (int64_t c = 0; c < settings.classes; ++c) {
      p[c] = std::exp(x[c] - largest);
      sum += p[c];
    }
    std::for_each(p, p + settings.classes, [&](double& value) { value /= sum; });
    ctx.outputs[0][static_cast<size_t>(r)] =
        RowLoss(settings, x, ctx.inputs[1].data() + r * settings.classes, largest, std::log(sum));
  }
  return OkStatus();
}

Status GradReference(const ReferenceContext& ctx) {
  const Settings settings = SettingsOf(ctx.node, ctx.input_shapes[1]);
  for (int64_t r = 0; r < settings.rows; ++r) {
    const double* labels = ctx.inputs[2].data() + r * settings.classes;
    double sum = 0.0;
    std::for_each(labels, labels + settings.classes, [&](double value) { sum += value; });
    RowGrad(settings, ctx.inputs[0][static_cast<size_t>(r)],
            ctx.inputs[1].data() + r * settings.classes, labels, sum,
            ctx.outputs[0].data() + r * settings.classes);
  }
  return OkStatus();
}

Status Gradient(GradContext& ctx) {
  const double smoothing = ctx.attrs().GetFloat("label_smoothing");
  const Value probabilities = ctx.output(1);
  Value dlogits;
  if (ctx.dy(0).valid()) {
    dlogits = SoftmaxCrossEntropyGrad(ctx, ctx.dy(0), probabilities, ctx.input(1), smoothing);
    const Value scaled = Mul(ctx, ctx.dy(0), ScalarLike(ctx, smoothing - 1.0, ctx.dy(0)));
    ctx.SetGrad(1, Mul(ctx, ExpandReduced(ctx, scaled, ctx.input(0), {1}, false, false),
                       LogSoftmax(ctx, ctx.input(0))));
  }
  if (ctx.dy(1).valid()) {
    const Value through = SoftmaxGrad(ctx, ctx.dy(1), probabilities);
    dlogits = dlogits.valid() ? Add(ctx, dlogits, through) : through;
  }
  ctx.SetGrad(0, dlogits);
  return OkStatus();
}

// With g the gradient of dloss * (p * Q - q), Q = sum(q), k = 1 - smoothing:
//   for dloss sum(g * (p * Q - q)),  for p g * dloss * Q,
//   for labels k * dloss * (sum(g * p) - g).
Status GradGradient(GradContext& ctx) {
  const double smoothing = ctx.attrs().GetFloat("label_smoothing");
  const Value g = ctx.dy();
  const Value p = ctx.input(1);
  const Value labels = ctx.input(2);
  const auto number = [&](double value) { return ScalarLike(ctx, value, g); };
  const auto sum_rows = [&](Value x) { return ReduceSum(ctx, x, {1}, true); };
  const Value dloss = ExpandReduced(ctx, ctx.input(0), g, {1}, false, false);
  const Value total =
      Add(ctx, Mul(ctx, sum_rows(labels), number(1.0 - smoothing)), number(smoothing));
  const Value ones = BroadcastLike(ctx, number(1.0), ctx.input(0));
  const Value differences = SoftmaxCrossEntropyGrad(ctx, ones, p, labels, smoothing);
  ctx.SetGrad(0, ReduceSum(ctx, Mul(ctx, g, differences), {1}));
  ctx.SetGrad(1, Mul(ctx, Mul(ctx, g, dloss), total));
  ctx.SetGrad(
      2, Mul(ctx, Mul(ctx, dloss, number(1.0 - smoothing)), Sub(ctx, sum_rows(Mul(ctx, g, p)), g)));
  return OkStatus();
}

AttrMap Attrs(double label_smoothing) {
  return {{"label_smoothing", label_smoothing}};
}

std::vector<AttrDef> AttrDefs() {
  return {{"label_smoothing", AttrType::kFloat, 0.0}};
}

std::vector<Sample> Samples() {
  const SampleInput logits = {.shape = {5, 7}, .low = -4.0, .high = 4.0};
  const SampleInput labels = {.shape = {5, 7}, .low = 0.0, .high = 0.4};
  return {
      {.name = "plain", .inputs = {logits, labels}},
      {.name = "smoothing", .inputs = {logits, labels}, .attrs = Attrs(0.1)},
      {.name = "one_hot",
       .inputs = {{.shape = {2, 3}, .values = {1, 2, 3, 1000, 999, -1000}},
                  {.shape = {2, 3}, .values = {0, 1, 0, 0, 1, 0}}},
       .check_gradient = false},
      {.name = "many_classes",
       .inputs = {{.shape = {3, 1000}}, {.shape = {3, 1000}, .low = 0.0, .high = 0.002}},
       .check_gradient = false},
  };
}

std::vector<Sample> GradSamples() {
  const SampleInput p = {.shape = {5, 7}, .low = 0.0, .high = 0.3};
  return {
      {.name = "plain", .inputs = {{.shape = {5}}, p, p}},
      {.name = "smoothing", .inputs = {{.shape = {5}}, p, p}, .attrs = Attrs(0.1)},
  };
}

}  // namespace

OpDef SoftmaxCrossEntropyWithLogitsDef() {
  return {.name = "SoftmaxCrossEntropyWithLogits",
          .summary = "cross entropy of softmax(logits) and a distribution per row",
          .min_inputs = 2,
          .max_inputs = 2,
          .attrs = AttrDefs(),
          .infer = Infer,
          .grad = Gradient,
          .cpu = Cpu,
          .reference = Reference,
          .samples = Samples};
}

OpDef SoftmaxCrossEntropyGradDef() {
  return {.name = "SoftmaxCrossEntropyGrad",
          .summary = "the gradient of SoftmaxCrossEntropyWithLogits",
          .min_inputs = 3,
          .max_inputs = 3,
          .attrs = AttrDefs(),
          .infer = GradInfer,
          .grad = GradGradient,
          .cpu = GradCpu,
          .reference = GradReference,
          .samples = GradSamples};
}

CrossEntropy SoftmaxCrossEntropyWithLogits(BuildContext ctx, Value logits, Value labels,
                                           double label_smoothing) {
  const Value loss =
      ctx.Add("SoftmaxCrossEntropyWithLogits", {logits, labels}, Attrs(label_smoothing));
  return {loss, loss.valid() ? loss.node->output(1) : Value{}};
}

Value SoftmaxCrossEntropyGrad(BuildContext ctx, Value dloss, Value probabilities, Value labels,
                              double label_smoothing) {
  return ctx.Add("SoftmaxCrossEntropyGrad", {dloss, probabilities, labels}, Attrs(label_smoothing));
}

}  // namespace lockstep::op
