#include "lockstep/op/apply_layerwise.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "lockstep/op/internal/apply.h"
#include "lockstep/op/internal/block_sum.h"
#include "lockstep/op/internal/parallel.h"
#include "lockstep/op/internal/sum.h"
#include "lockstep/op/internal/update_rules.h"

namespace lockstep::op {
namespace {

constexpr ApplyInputs kLars = {.slots = 1, .uses_step = false};
constexpr ApplyInputs kLamb = {.slots = 2, .uses_step = true};

Status CheckScale(const AttrMap& attrs) {
  if (std::isfinite(attrs.GetFloat("grad_scale"))) {
    return OkStatus();
  }
  return InvalidArgument(fmt::format("the attribute 'grad_scale' is {}, expected a finite number",
                                     attrs.GetFloat("grad_scale")));
}

std::vector<SampleInput> SampleInputs(bool step) {
  const Shape shape = {5, 9};
  std::vector<SampleInput> inputs = {{.shape = shape}, {.shape = shape, .low = -1.0, .high = 1.0}};
  if (step) {
    inputs.push_back({.shape = shape, .low = 0.1, .high = 1.0});
    inputs.push_back({.shape = {}, .dtype = DType::kInt64, .values = {3}});
  }
  inputs.push_back({.shape = {}, .values = {0.1}});
  inputs.push_back({.shape = shape});
  return inputs;
}

Sample UpdateSample(std::string name, std::vector<SampleInput> inputs, AttrMap attrs) {
  return {.name = std::move(name),
          .inputs = std::move(inputs),
          .attrs = std::move(attrs),
          .check_gradient = false};
}

// ---- LARS

struct LarsRule {
  explicit LarsRule(const AttrMap& attrs)
      : options{.momentum = attrs.GetFloat("momentum"),
                .weight_decay = attrs.GetFloat("weight_decay"),
                .trust_coefficient = attrs.GetFloat("trust_coefficient"),
                .epsilon = attrs.GetFloat("epsilon"),
                .grad_scale = attrs.GetFloat("grad_scale")} {}

  // lr * local.
  double Rate(double lr, double var_norm, double grad_norm) const {
    if (!(var_norm > 0.0 && grad_norm > 0.0)) {
      return lr;
    }
    return lr * options.trust_coefficient * var_norm /
           (grad_norm + options.weight_decay * var_norm + options.epsilon);
  }

  template <class T>
  void Update(double rate, const T* grad, int64_t begin, int64_t end, T* var, T* accum) const {
    const T momentum = static_cast<T>(options.momentum);
    const T step = static_cast<T>(rate);
    const T decay = static_cast<T>(options.weight_decay);
    const T scale = static_cast<T>(options.grad_scale);
#pragma GCC ivdep
    for (int64_t i = begin; i < end; ++i) {
      accum[i] = momentum * accum[i] + step * (scale * grad[i] + decay * var[i]);
      var[i] -= accum[i];
    }
  }

  LarsOptions options;
};

Status LarsInfer(InferContext& ctx) {
  for (const char* name : {"momentum", "weight_decay", "trust_coefficient", "epsilon"}) {
    LS_TRY(ExpectInRange(ctx.attrs(), name));
  }
  LS_TRY(CheckScale(ctx.attrs()));
  return InferApply(ctx, kLars);
}

Result<Kernel> LarsCpu(const KernelRequest& request) {
  Kernel kernel;
  const int64_t elements = PrepareApplyKernel(request, kLars, &kernel);
  kernel.scratch_bytes = BlockSumScratch(elements);
  kernel.run = [rule = LarsRule(request.node.attrs), elements,
                threads = request.threads](const KernelArgs& args) -> Status {
    LS_ASSIGN_OR_RETURN(const ApplyScalars scalars, ReadApplyScalars(args, kLars, DType::kFloat32));
    float* var = args.variable<float>(0);
    const float* grad = args.in<float>(kLars.grad());
    const double var_norm = std::sqrt(SumSquaresInBlocks(threads, var, elements, args.scratch));
    const double grad_norm = std::abs(rule.options.grad_scale) *
                             std::sqrt(SumSquaresInBlocks(threads, grad, elements, args.scratch));
    const double rate = rule.Rate(scalars.lr, var_norm, grad_norm);
    ParallelFor(threads, elements, kElementGrain, [&](int64_t begin, int64_t end) {
      rule.Update(rate, grad, begin, end, var, args.variable<float>(1));
    });
    return OkStatus();
  };
  return kernel;
}

double Norm(std::span<const double> x) {
  double sum = 0.0;
  for (const double value : x) {
    sum += value * value;
  }
  return std::sqrt(sum);
}

Status LarsReference(const ReferenceContext& ctx) {
  const LarsRule rule(ctx.node.attrs);
  LS_ASSIGN_OR_RETURN(const ApplyScalars scalars, ReadApplyScalars(ctx, kLars));
  std::vector<double>& var = ctx.variables[0];
  const std::vector<double>& grad = ctx.inputs[static_cast<size_t>(kLars.grad())];
  const double rate =
      rule.Rate(scalars.lr, Norm(var), std::abs(rule.options.grad_scale) * Norm(grad));
  rule.Update(rate, grad.data(), 0, static_cast<int64_t>(var.size()), var.data(),
              ctx.variables[1].data());
  ctx.outputs[0] = var;
  return OkStatus();
}

std::vector<Sample> LarsSamples() {
  const auto inputs = SampleInputs(false);
  auto still = inputs;
  still[0].values = std::vector<double>(45);
  return {UpdateSample("plain", inputs, {}),
          UpdateSample("decay", inputs,
                       {{"weight_decay", 0.01}, {"trust_coefficient", 0.02}, {"epsilon", 0.1}}),
          UpdateSample("zero_variable", std::move(still), {{"grad_scale", -0.5}})};
}

// ---- LAMB

struct LambRule {
  explicit LambRule(const AttrMap& attrs)
      : options{.beta1 = attrs.GetFloat("beta1"),
                .beta2 = attrs.GetFloat("beta2"),
                .epsilon = attrs.GetFloat("epsilon"),
                .weight_decay = attrs.GetFloat("weight_decay"),
                .grad_scale = attrs.GetFloat("grad_scale")} {}

  template <class T>
  void UpdateSlots(const T* grad, int64_t begin, int64_t end, T* m, T* v) const {
    const T b1 = static_cast<T>(options.beta1);
    const T b2 = static_cast<T>(options.beta2);
    const T c1 = static_cast<T>(1.0 - options.beta1);
    const T c2 = static_cast<T>(1.0 - options.beta2);
    const T scale = static_cast<T>(options.grad_scale);
#pragma GCC ivdep
    for (int64_t i = begin; i < end; ++i) {
      const T g = scale * grad[i];
      m[i] = b1 * m[i] + c1 * g;
      v[i] = b2 * v[i] + c2 * (g * g);
    }
  }

  // u of elements [begin, end).
  template <class T>
  void Direction(double step, const T* var, const T* m, const T* v, int64_t begin, int64_t end,
                 T* u) const {
    const T correct1 = static_cast<T>(1.0 / (1.0 - std::pow(options.beta1, step)));
    const T correct2 = static_cast<T>(1.0 / (1.0 - std::pow(options.beta2, step)));
    const T epsilon = static_cast<T>(options.epsilon);
    const T decay = static_cast<T>(options.weight_decay);
    for (int64_t i = begin; i < end; ++i) {
      u[i - begin] =
          SafeDivide(m[i] * correct1, std::sqrt(v[i] * correct2) + epsilon) + decay * var[i];
    }
  }

  static double Rate(double lr, double var_norm, double u_norm) {
    return var_norm > 0.0 && u_norm > 0.0 ? lr * var_norm / u_norm : lr;
  }

  LambOptions options;
};

Status LambInfer(InferContext& ctx) {
  LS_TRY(ExpectInRange(ctx.attrs(), "beta1", 1.0));
  LS_TRY(ExpectInRange(ctx.attrs(), "beta2", 1.0));
  LS_TRY(ExpectInRange(ctx.attrs(), "epsilon"));
  LS_TRY(ExpectInRange(ctx.attrs(), "weight_decay"));
  LS_TRY(CheckScale(ctx.attrs()));
  return InferApply(ctx, kLamb);
}

// Directions are made in pieces that stay in the first-level cache.
constexpr int64_t kPiece = 512;

Result<Kernel> LambCpu(const KernelRequest& request) {
  Kernel kernel;
  const int64_t elements = PrepareApplyKernel(request, kLamb, &kernel);
  kernel.scratch_bytes = BlockSumScratch(elements);
  const DType step_dtype = request.inputs[static_cast<size_t>(kLamb.step())].dtype;
  kernel.run = [rule = LambRule(request.node.attrs), elements, step_dtype,
                threads = request.threads](const KernelArgs& args) -> Status {
    LS_ASSIGN_OR_RETURN(const ApplyScalars scalars, ReadApplyScalars(args, kLamb, step_dtype));
    float* var = args.variable<float>(0);
    float* m = args.variable<float>(1);
    float* v = args.variable<float>(2);
    const double var_norm = std::sqrt(SumSquaresInBlocks(threads, var, elements, args.scratch));
    // Calls use(first element, count, directions) for every piece of [begin, end).
    const auto for_pieces = [&](int64_t begin, int64_t end, const auto& use) {
      std::array<float, kPiece> u;
      for (int64_t start = begin; start < end; start += kPiece) {
        const int64_t stop = std::min(start + kPiece, end);
        rule.Direction(scalars.step, var, m, v, start, stop, u.data());
        use(start, stop - start, u.data());
      }
    };
    const double u_squares =
        SumInBlocks(threads, elements, args.scratch, [&](int64_t begin, int64_t end) {
          rule.UpdateSlots(args.in<float>(kLamb.grad()), begin, end, m, v);
          double sum = 0.0;
          for_pieces(begin, end,
                     [&](int64_t, int64_t count, const float* u) { sum += SumSquares(u, count); });
          return sum;
        });
    const auto rate =
        static_cast<float>(LambRule::Rate(scalars.lr, var_norm, std::sqrt(u_squares)));
    ParallelFor(threads, elements, kElementGrain, [&](int64_t begin, int64_t end) {
      for_pieces(begin, end, [&](int64_t start, int64_t count, const float* u) {
        for (int64_t i = 0; i < count; ++i) {
          var[start + i] -= rate * u[i];
        }
      });
    });
    return OkStatus();
  };
  return kernel;
}

Status LambReference(const ReferenceContext& ctx) {
  const LambRule rule(ctx.node.attrs);
  LS_ASSIGN_OR_RETURN(const ApplyScalars scalars, ReadApplyScalars(ctx, kLamb));
  std::vector<double>& var = ctx.variables[0];
  std::vector<double>& m = ctx.variables[1];
  std::vector<double>& v = ctx.variables[2];
  const auto elements = static_cast<int64_t>(var.size());
  std::vector<double> u(var.size());
  rule.UpdateSlots(ctx.inputs[static_cast<size_t>(kLamb.grad())].data(), 0, elements, m.data(),
                   v.data());
  rule.Direction(scalars.step, var.data(), m.data(), v.data(), 0, elements, u.data());
  const double rate = LambRule::Rate(scalars.lr, Norm(var), Norm(u));
  for (size_t i = 0; i < var.size(); ++i) {
    var[i] -= rate * u[i];
  }
  ctx.outputs[0] = var;
  return OkStatus();
}

std::vector<Sample> LambSamples() {
  const auto inputs = SampleInputs(true);
  return {UpdateSample("plain", inputs, {}),
          UpdateSample("decay", inputs, {{"weight_decay", 0.01}, {"grad_scale", 0.5}})};
}

AttrDef FloatDef(std::string_view name, double value) {
  return {name, AttrType::kFloat, value};
}

}  // namespace

OpDef ApplyLarsDef() {
  const LarsOptions defaults;
  return {
      .name = "ApplyLars",
      .summary = "momentum with a rate per variable (LARS)",
      .min_inputs = kLars.grad() + 1,
      .max_inputs = kLars.grad() + 1,
      .attrs = {FloatDef("momentum", defaults.momentum),
                FloatDef("weight_decay", defaults.weight_decay),
                FloatDef("trust_coefficient", defaults.trust_coefficient),
                FloatDef("epsilon", defaults.epsilon), FloatDef("grad_scale", defaults.grad_scale)},
      .infer = LarsInfer,
      .cpu = LarsCpu,
      .reference = LarsReference,
      .samples = LarsSamples,
      .written_inputs = 0b11,
      .stateful = true};
}

OpDef ApplyLambDef() {
  const LambOptions defaults;
  return {.name = "ApplyLamb",
          .summary = "Adam with a rate per variable (LAMB)",
          .min_inputs = kLamb.grad() + 1,
          .max_inputs = kLamb.grad() + 1,
          .attrs = {FloatDef("beta1", defaults.beta1), FloatDef("beta2", defaults.beta2),
                    FloatDef("epsilon", defaults.epsilon),
                    FloatDef("weight_decay", defaults.weight_decay),
                    FloatDef("grad_scale", defaults.grad_scale)},
          .infer = LambInfer,
          .cpu = LambCpu,
          .reference = LambReference,
          .samples = LambSamples,
          .written_inputs = 0b111,
          .stateful = true};
}

Value ApplyLars(BuildContext ctx, Value var, Value accum, Value lr, Value grad,
                const LarsOptions& options) {
  return ctx.Add("ApplyLars", {var, accum, lr, grad},
                 {{"momentum", options.momentum},
                  {"weight_decay", options.weight_decay},
                  {"trust_coefficient", options.trust_coefficient},
                  {"epsilon", options.epsilon},
                  {"grad_scale", options.grad_scale}});
}

Value ApplyLamb(BuildContext ctx, Value var, Value m, Value v, Value step, Value lr, Value grad,
                const LambOptions& options) {
  return ctx.Add("ApplyLamb", {var, m, v, step, lr, grad},
                 {{"beta1", options.beta1},
                  {"beta2", options.beta2},
                  {"epsilon", options.epsilon},
                  {"weight_decay", options.weight_decay},
                  {"grad_scale", options.grad_scale}});
}

}  // namespace lockstep::op
