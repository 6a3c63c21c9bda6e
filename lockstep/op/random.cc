#include "lockstep/op/random.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lockstep/graph/op_def.h"
#include "lockstep/op/internal/parallel.h"
#include "lockstep/op/internal/random_stream.h"

namespace lockstep::op {
namespace {

// Of what describes a distribution, so that its values are finite in float32.
constexpr double kMostMagnitude = 1e37;

// Elements 4 * block to 4 * block + 3 of each distribution.
using Quad = std::array<float, 4>;

struct UniformRule {
  explicit UniformRule(const AttrMap& attrs)
      : low(static_cast<float>(attrs.GetFloat("low"))),
        high(static_cast<float>(attrs.GetFloat("high"))),
        last(std::max(low, std::nextafter(high, low))) {}

  Quad operator()(const PhiloxBlock& words) const {
    Quad values;
    for (size_t i = 0; i < 4; ++i) {
      // Rounding may reach `high`.
      values[i] = std::min(low + (high - low) * UniformFloat(words[i]), last);
    }
    return values;
  }

  float low;
  float high;
  float last;
};

struct NormalRule {
  explicit NormalRule(const AttrMap& attrs)
      : mean(static_cast<float>(attrs.GetFloat("mean"))),
        stddev(static_cast<float>(attrs.GetFloat("stddev"))) {}

  Quad operator()(const PhiloxBlock& words) const {
    const auto first = NormalPair(words[0], words[1]);
    const auto second = NormalPair(words[2], words[3]);
    return {mean + stddev * first[0], mean + stddev * first[1], mean + stddev * second[0],
            mean + stddev * second[1]};
  }

  float mean;
  float stddev;
};

struct TruncatedRule {
  explicit TruncatedRule(const AttrMap& attrs) : normal(attrs) {}

  Quad operator()(const PhiloxBlock& words) const {
    Quad values;
    for (size_t i = 0; i < 4; ++i) {
      values[i] = normal.mean + normal.stddev * TruncatedNormalValue(words[i]);
    }
    return values;
  }

  NormalRule normal;
};

Status InferShape(InferContext& ctx) {
  const Shape& shape = ctx.attrs().Get<Shape>("shape");
  const DType dtype = ctx.attrs().Get<DType>("dtype");
  if (!IsFloating(dtype)) {
    return InvalidArgument(
        fmt::format("the attribute 'dtype' is {}, allowed are float32, bfloat16 and float64",
                    DTypeName(dtype)));
  }
  if (!shape.fully_known()) {
    return InvalidArgument(
        fmt::format("the attribute 'shape' is {}, allowed are known dimensions", shape.ToString()));
  }
  ctx.AddOutput(dtype, shape);
  return OkStatus();
}

Status InferUniform(InferContext& ctx) {
  LS_TRY(InferShape(ctx));
  const double low = ctx.attrs().GetFloat("low");
  const double high = ctx.attrs().GetFloat("high");
  if (!(std::abs(low) <= kMostMagnitude && std::abs(high) <= kMostMagnitude && low <= high)) {
    return InvalidArgument(
        fmt::format("the attributes 'low' and 'high' are {} and {}, allowed are numbers up to 1e37 "
                    "in this order",
                    low, high));
  }
  return OkStatus();
}

Status InferNormal(InferContext& ctx) {
  LS_TRY(InferShape(ctx));
  const double mean = ctx.attrs().GetFloat("mean");
  const double stddev = ctx.attrs().GetFloat("stddev");
  if (!(std::abs(mean) <= kMostMagnitude && stddev >= 0.0 && stddev <= kMostMagnitude)) {
    return InvalidArgument(
        fmt::format("the attributes 'mean' and 'stddev' are {} and {}, allowed are numbers up to "
                    "1e37, the latter 0 or more",
                    mean, stddev));
  }
  return OkStatus();
}

StreamKey KeyOf(const Node& node) {
  return StreamKeyOf(node, node.attrs.GetBool("per_step"));
}

// Elements [begin, end); begin is a multiple of 4.
template <class Rule, class T>
void Fill(const Rule& rule, const PhiloxStream& stream, int64_t begin, int64_t end, T* y) {
  for (int64_t i = begin; i < end; i += 4) {
    const Quad values = rule(stream.Block(static_cast<uint64_t>(i / 4)));
    std::copy_n(values.begin(), std::min<int64_t>(4, end - i), y + i);
  }
}

template <class Rule>
Result<Kernel> Cpu(const KernelRequest& request) {
  if (request.outputs[0].dtype != DType::kFloat32) {
    return Unimplemented("random ops have float32 kernels");
  }
  Kernel kernel;
  kernel.run = [rule = Rule(request.node.attrs), key = KeyOf(request.node),
                elements = request.outputs[0].shape.num_elements(),
                threads = request.threads](const KernelArgs& args) {
    const PhiloxStream stream = key.At(*args.step);
    // A multiple of 4; a value costs more than in other element-wise loops.
    constexpr int64_t kGrain = kElementGrain / 8;
    ParallelFor(threads, elements, kGrain, [&](int64_t begin, int64_t end) {
      Fill(rule, stream, begin, end, args.out<float>(0));
    });
    return OkStatus();
  };
  return kernel;
}

template <class Rule>
Status Reference(const ReferenceContext& ctx) {
  Fill(Rule(ctx.node.attrs), KeyOf(ctx.node).At(ctx.step), 0,
       static_cast<int64_t>(ctx.outputs[0].size()), ctx.outputs[0].data());
  return OkStatus();
}

std::vector<AttrDef> AttrDefs(std::string_view first, double first_value, std::string_view second,
                              double second_value) {
  const RandomOptions defaults;
  return {{"shape", AttrType::kShape},
          {"dtype", AttrType::kDType, defaults.dtype},
          {first, AttrType::kFloat, first_value},
          {second, AttrType::kFloat, second_value},
          {"seed", AttrType::kInt, defaults.seed},
          {"stream", AttrType::kString, defaults.stream},
          {"per_step", AttrType::kBool, defaults.per_step}};
}

Value AddRandom(BuildContext ctx, std::string_view op, const Shape& shape, AttrMap attrs,
                const RandomOptions& options) {
  attrs.Set("shape", shape);
  attrs.Set("dtype", options.dtype);
  attrs.Set("seed", options.seed);
  attrs.Set("stream", options.stream);
  attrs.Set("per_step", options.per_step);
  return ctx.Add(op, {}, std::move(attrs));
}

std::vector<Sample> Samples(std::string_view first, double first_value, std::string_view second,
                            double second_value) {
  return {
      {.name = "odd_count", .attrs = {{"shape", Shape{5, 1001}}}},
      {.name = "scalar_of_one_stream",
       .attrs = {{"shape", Shape{}}, {"stream", std::string("s")}, {"per_step", false}}},
      {.name = "many",
       .attrs = {{"shape", Shape{3, 2731}},
                 {"seed", int64_t{9}},
                 {first, first_value},
                 {second, second_value}}},
      {.name = "empty", .attrs = {{"shape", Shape{3, 0}}}},
  };
}

std::vector<Sample> UniformSamples() {
  return Samples("low", -3.0, "high", 5.0);
}

std::vector<Sample> NormalSamples() {
  return Samples("mean", -3.0, "stddev", 5.0);
}

}  // namespace

OpDef RandomUniformDef() {
  return {.name = "RandomUniform",
          .summary = "uniform random values in [low, high)",
          .attrs = AttrDefs("low", 0.0, "high", 1.0),
          .infer = InferUniform,
          .cpu = Cpu<UniformRule>,
          .reference = Reference<UniformRule>,
          .samples = UniformSamples,
          .stateful = true};
}

OpDef RandomNormalDef() {
  return {.name = "RandomNormal",
          .summary = "normal random values",
          .attrs = AttrDefs("mean", 0.0, "stddev", 1.0),
          .infer = InferNormal,
          .cpu = Cpu<NormalRule>,
          .reference = Reference<NormalRule>,
          .samples = NormalSamples,
          .stateful = true};
}

OpDef TruncatedNormalDef() {
  return {.name = "TruncatedNormal",
          .summary = "normal random values within two standard deviations",
          .attrs = AttrDefs("mean", 0.0, "stddev", 1.0),
          .infer = InferNormal,
          .cpu = Cpu<TruncatedRule>,
          .reference = Reference<TruncatedRule>,
          .samples = NormalSamples,
          .stateful = true};
}

Value RandomUniform(BuildContext ctx, const Shape& shape, double low, double high,
                    const RandomOptions& options) {
  return AddRandom(ctx, "RandomUniform", shape, {{"low", low}, {"high", high}}, options);
}

Value RandomNormal(BuildContext ctx, const Shape& shape, double mean, double stddev,
                   const RandomOptions& options) {
  return AddRandom(ctx, "RandomNormal", shape, {{"mean", mean}, {"stddev", stddev}}, options);
}

Value TruncatedNormal(BuildContext ctx, const Shape& shape, double mean, double stddev,
                      const RandomOptions& options) {
  return AddRandom(ctx, "TruncatedNormal", shape, {{"mean", mean}, {"stddev", stddev}}, options);
}

}  // namespace lockstep::op
