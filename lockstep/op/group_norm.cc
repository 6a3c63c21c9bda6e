#include "lockstep/op/group_norm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lockstep/graph/grad_context.h"
#include "lockstep/graph/op_def.h"
#include "lockstep/op/internal/lane_sum.h"
#include "lockstep/op/internal/parallel.h"
#include "lockstep/op/internal/window.h"

namespace lockstep::op {
namespace {

using internal::ImageAxes;

// Inputs of GroupNormGrad.
constexpr int kDy = 0;
constexpr int kX = 1;
constexpr int kScale = 2;

// Pixels summed up in float32 before the sums go on in float64.
constexpr int64_t kSpan = 128;

struct Geometry {
  int64_t images = 0;
  int64_t channels = 0;
  int64_t pixels = 0;
  int64_t groups = 1;
  int64_t channel_stride = 1;
  int64_t pixel_stride = 1;
  double epsilon = 0.0;
  int threads = 1;

  int64_t image_size() const { return channels * pixels; }

  int64_t group_channels() const { return channels / groups; }

  double group_elements() const { return static_cast<double>(group_channels() * pixels); }
};

// Dimensions may be unknown, except the channels.
Result<Geometry> Resolve(const AttrMap& attrs, const Shape& x) {
  LS_ASSIGN_OR_RETURN(const ImageAxes axes, internal::ParseDataFormat(attrs));
  if (x.rank() != 4) {
    return InvalidArgument(
        fmt::format("the input has the shape {}, expected rank 4", x.ToString()));
  }
  Geometry g;
  g.groups = attrs.GetInt("groups");
  g.epsilon = attrs.GetFloat("epsilon");
  g.images = x[axes.n];
  g.channels = x[axes.c];
  if (g.channels == Shape::kUnknownDim || g.groups < 1 || g.channels % g.groups != 0) {
    return InvalidArgument(
        fmt::format("{} groups of the channels of {}, expected a divisor", g.groups, x.ToString()));
  }
  if (!(g.epsilon > 0.0) || !std::isfinite(g.epsilon)) {
    return InvalidArgument(fmt::format("epsilon is {}, expected a positive number", g.epsilon));
  }
  if (x.fully_known()) {
    g.pixels = x[axes.h] * x[axes.w];
    g.channel_stride = axes.c == 3 ? 1 : g.pixels;
    g.pixel_stride = axes.c == 3 ? g.channels : 1;
  }
  return g;
}

Status ExpectParameter(const InferContext& ctx, int i, const Geometry& g) {
  LS_TRY(ctx.ExpectSameDType(0, i));
  if (!ctx.shape(i).CompatibleWith(Shape{g.channels})) {
    return InvalidArgument(fmt::format("input {} has the shape {}, expected [{}]", i,
                                       ctx.shape(i).ToString(), g.channels));
  }
  return OkStatus();
}

Status Infer(InferContext& ctx) {
  LS_TRY(ctx.ExpectFloating(0));
  LS_ASSIGN_OR_RETURN(const Geometry g, Resolve(ctx.attrs(), ctx.shape(0)));
  LS_TRY(ExpectParameter(ctx, 1, g));
  LS_TRY(ExpectParameter(ctx, 2, g));
  ctx.AddOutput(ctx.dtype(0), ctx.shape(0));
  return OkStatus();
}

Status GradInfer(InferContext& ctx) {
  LS_TRY(ctx.ExpectFloating(kDy));
  LS_TRY(ctx.ExpectSameDType(kDy, kX));
  LS_TRY(ctx.ExpectSameShape(kDy, kX));
  LS_ASSIGN_OR_RETURN(const Geometry g, Resolve(ctx.attrs(), ctx.shape(kX)));
  LS_TRY(ExpectParameter(ctx, kScale, g));
  ctx.AddOutput(ctx.dtype(kX), ctx.shape(kX));
  ctx.AddOutput(ctx.dtype(kX), Shape{g.channels});
  ctx.AddOutput(ctx.dtype(kX), Shape{g.channels});
  return OkStatus();
}

Status Grad(GradContext& ctx) {
  const BuildContext build = ctx;
  Node* grad = build.AddNode("GroupNormGrad", {ctx.dy(), ctx.input(0), ctx.input(1)}, ctx.attrs());
  if (grad != nullptr) {
    for (int i = 0; i < 3; ++i) {
      ctx.SetGrad(i, grad->output(i));
    }
  }
  return OkStatus();
}

// Memory for one image; all arrays have one element per channel.
struct ImageScratch {
  double* sums;
  double* products;
  float* mean;
  float* inverse;
  float* spans;

  static size_t Bytes(const Geometry& g) {
    return static_cast<size_t>(g.channels) * (2 * sizeof(double) + 3 * sizeof(float)) / 8 * 8 + 8;
  }

  ImageScratch(const Geometry& g, void* scratch, int64_t image) {
    auto* at = static_cast<char*>(scratch) + static_cast<size_t>(image) * Bytes(g);
    sums = reinterpret_cast<double*>(at);
    products = sums + g.channels;
    mean = reinterpret_cast<float*>(products + g.channels);
    inverse = mean + g.channels;
    spans = inverse + g.channels;
  }
};

// target[c] = sum over pixels of term(element, c).
template <class Term>
void SumPixels(const Geometry& g, float* spans, double* target, const Term& term) {
  if (g.pixel_stride == 1) {
    for (int64_t c = 0; c < g.channels; ++c) {
      const int64_t at = c * g.channel_stride;
      target[c] = internal::LaneSum(g.pixels, [&](int64_t p) { return term(at + p, c); });
    }
    return;
  }
  std::fill_n(target, g.channels, 0.0);
  for (int64_t begin = 0; begin < g.pixels; begin += kSpan) {
    std::fill_n(spans, g.channels, 0.0F);
    for (int64_t p = begin; p < std::min(g.pixels, begin + kSpan); ++p) {
      for (int64_t c = 0; c < g.channels; ++c) {
        spans[c] += term(p * g.pixel_stride + c, c);
      }
    }
    for (int64_t c = 0; c < g.channels; ++c) {
      target[c] += static_cast<double>(spans[c]);
    }
  }
}

// Calls set(channel, mean over its group of values[channel]).
template <class Set>
void GroupMeans(const Geometry& g, const double* values, const Set& set) {
  for (int64_t first = 0; first < g.channels; first += g.group_channels()) {
    double sum = 0.0;
    for (int64_t c = first; c < first + g.group_channels(); ++c) {
      sum += values[c];
    }
    for (int64_t c = first; c < first + g.group_channels(); ++c) {
      set(c, sum / g.group_elements());
    }
  }
}

void Statistics(const Geometry& g, const float* x, const ImageScratch& s) {
  SumPixels(g, s.spans, s.sums, [x](int64_t i, int64_t) { return x[i]; });
  GroupMeans(g, s.sums, [&s](int64_t c, double mean) { s.mean[c] = static_cast<float>(mean); });
  SumPixels(g, s.spans, s.sums, [x, &s](int64_t i, int64_t c) {
    const float d = x[i] - s.mean[c];
    return d * d;
  });
  GroupMeans(g, s.sums, [&](int64_t c, double variance) {
    s.inverse[c] = static_cast<float>(1.0 / std::sqrt(variance + g.epsilon));
  });
}

// Calls body(element, channel) for all elements of an image in the order of memory.
template <class Body>
void ForEachElement(const Geometry& g, const Body& body) {
  if (g.pixel_stride == 1) {
    for (int64_t c = 0; c < g.channels; ++c) {
      for (int64_t p = 0; p < g.pixels; ++p) {
        body(c * g.channel_stride + p, c);
      }
    }
    return;
  }
  for (int64_t p = 0; p < g.pixels; ++p) {
    for (int64_t c = 0; c < g.channels; ++c) {
      body(p * g.pixel_stride + c, c);
    }
  }
}

Result<Geometry> GeometryOf(const KernelRequest& request, const TensorDesc& x) {
  if (x.dtype != DType::kFloat32) {
    return Unimplemented("GroupNorm has a kernel for float32 only");
  }
  LS_ASSIGN_OR_RETURN(Geometry g, Resolve(request.node.attrs, x.shape));
  g.threads = request.threads;
  return g;
}

Result<Kernel> Cpu(const KernelRequest& request) {
  LS_ASSIGN_OR_RETURN(const Geometry g, GeometryOf(request, request.inputs[0]));
  Kernel kernel;
  kernel.in_place = {0};
  kernel.scratch_bytes = static_cast<size_t>(g.images) * ImageScratch::Bytes(g);
  kernel.run = [g](const KernelArgs& args) {
    const auto* scale = args.in<float>(1);
    const auto* offset = args.in<float>(2);
    ParallelFor(g.threads, g.images, 1, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        const float* x = args.in<float>(0) + n * g.image_size();
        float* y = args.out<float>(0) + n * g.image_size();
        const ImageScratch s(g, args.scratch, n);
        Statistics(g, x, s);
        ForEachElement(g, [&](int64_t i, int64_t c) {
          y[i] = (x[i] - s.mean[c]) * s.inverse[c] * scale[c] + offset[c];
        });
      }
    });
    return OkStatus();
  };
  return kernel;
}

// dx of one image; leaves the image's share of the parameter gradients in s.sums (offset) and
// s.products (scale).
void ImageGradient(const Geometry& g, const float* dy, const float* x, const float* scale,
                   const ImageScratch& s, float* dx) {
  Statistics(g, x, s);
  SumPixels(g, s.spans, s.sums, [dy](int64_t i, int64_t) { return dy[i]; });
  SumPixels(g, s.spans, s.products, [dy, x, &s](int64_t i, int64_t c) {
    return dy[i] * ((x[i] - s.mean[c]) * s.inverse[c]);
  });
  for (int64_t first = 0; first < g.channels; first += g.group_channels()) {
    const int64_t last = first + g.group_channels();
    double sum = 0.0;
    double products = 0.0;
    for (int64_t c = first; c < last; ++c) {
      sum += s.sums[c] * static_cast<double>(scale[c]);
      products += s.products[c] * static_cast<double>(scale[c]);
    }
    const auto a = static_cast<float>(sum / g.group_elements());
    const auto b = static_cast<float>(products / g.group_elements());
    for (int64_t c = first; c < last; ++c) {
      for (int64_t p = 0; p < g.pixels; ++p) {
        const int64_t i = c * g.channel_stride + p * g.pixel_stride;
        const float normal = (x[i] - s.mean[c]) * s.inverse[c];
        dx[i] = s.inverse[c] * (dy[i] * scale[c] - a - normal * b);
      }
    }
  }
}

Result<Kernel> GradCpu(const KernelRequest& request) {
  LS_ASSIGN_OR_RETURN(const Geometry g, GeometryOf(request, request.inputs[kX]));
  Kernel kernel;
  kernel.scratch_bytes = static_cast<size_t>(g.images) * ImageScratch::Bytes(g);
  kernel.run = [g](const KernelArgs& args) {
    ParallelFor(g.threads, g.images, 1, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        const int64_t at = n * g.image_size();
        ImageGradient(g, args.in<float>(kDy) + at, args.in<float>(kX) + at, args.in<float>(kScale),
                      ImageScratch(g, args.scratch, n), args.out<float>(0) + at);
      }
    });
    for (int64_t c = 0; c < g.channels; ++c) {
      double dscale = 0.0;
      double doffset = 0.0;
      for (int64_t n = 0; n < g.images; ++n) {
        const ImageScratch s(g, args.scratch, n);
        dscale += s.products[c];
        doffset += s.sums[c];
      }
      args.out<float>(1)[c] = static_cast<float>(dscale);
      args.out<float>(2)[c] = static_cast<float>(doffset);
    }
    return OkStatus();
  };
  return kernel;
}

struct Position {
  size_t group;  // over all images
  size_t channel;
};

Position PositionOf(const Geometry& g, size_t i) {
  const auto element = static_cast<int64_t>(i);
  const int64_t within = element % g.image_size();
  const int64_t channel = g.pixel_stride == 1 ? within / g.channel_stride : within % g.channels;
  const int64_t image = element / g.image_size();
  return {static_cast<size_t>(image * g.groups + channel / g.group_channels()),
          static_cast<size_t>(channel)};
}

// Normalised elements, and 1 / standard deviation of each group.
void ReferenceNormalize(const Geometry& g, const std::vector<double>& x,
                        std::vector<double>& normal, std::vector<double>& inverse) {
  std::vector<double> mean(static_cast<size_t>(g.images * g.groups));
  std::vector<double> variance(mean.size());
  for (size_t i = 0; i < x.size(); ++i) {
    mean[PositionOf(g, i).group] += x[i] / g.group_elements();
  }
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t group = PositionOf(g, i).group;
    variance[group] += (x[i] - mean[group]) * (x[i] - mean[group]) / g.group_elements();
  }
  for (const double v : variance) {
    inverse.push_back(1.0 / std::sqrt(v + g.epsilon));
  }
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t group = PositionOf(g, i).group;
    normal.push_back((x[i] - mean[group]) * inverse[group]);
  }
}

Status Reference(const ReferenceContext& ctx) {
  LS_ASSIGN_OR_RETURN(const Geometry g, Resolve(ctx.node.attrs, ctx.input_shapes[0]));
  std::vector<double> normal;
  std::vector<double> inverse;
  ReferenceNormalize(g, ctx.inputs[0], normal, inverse);
  for (size_t i = 0; i < normal.size(); ++i) {
    const size_t c = PositionOf(g, i).channel;
    ctx.outputs[0][i] = normal[i] * ctx.inputs[1][c] + ctx.inputs[2][c];
  }
  return OkStatus();
}

Status GradReference(const ReferenceContext& ctx) {
  LS_ASSIGN_OR_RETURN(const Geometry g, Resolve(ctx.node.attrs, ctx.input_shapes[kX]));
  std::vector<double> normal;
  std::vector<double> inverse;
  ReferenceNormalize(g, ctx.inputs[kX], normal, inverse);
  std::vector<double> sums(inverse.size());
  std::vector<double> products(inverse.size());
  for (size_t i = 0; i < normal.size(); ++i) {
    const Position at = PositionOf(g, i);
    const double dy = ctx.inputs[kDy][i];
    ctx.outputs[1][at.channel] += dy * normal[i];
    ctx.outputs[2][at.channel] += dy;
    sums[at.group] += dy * ctx.inputs[kScale][at.channel] / g.group_elements();
    products[at.group] += dy * ctx.inputs[kScale][at.channel] * normal[i] / g.group_elements();
  }
  for (size_t i = 0; i < normal.size(); ++i) {
    const Position at = PositionOf(g, i);
    ctx.outputs[0][i] = inverse[at.group] * (ctx.inputs[kDy][i] * ctx.inputs[kScale][at.channel] -
                                             sums[at.group] - normal[i] * products[at.group]);
  }
  return OkStatus();
}

struct Case {
  std::string name;
  Shape x;
  int64_t channels;
  int64_t groups;
  std::string format = "NHWC";
};

std::vector<Sample> MakeSamples(bool gradient) {
  std::vector<Sample> samples;
  for (const Case& c : std::vector<Case>{{"nhwc", {2, 2, 3, 6}, 6, 2},
                                         {"nhwc_many_pixels", {1, 13, 12, 8}, 8, 4},
                                         {"one_group", {2, 2, 2, 5}, 5, 1},
                                         {"nchw", {2, 6, 3, 4}, 6, 3, "NCHW"}}) {
    const SampleInput x{.shape = c.x};
    const SampleInput parameter{.shape = {c.channels}, .low = 0.5, .high = 1.5};
    samples.push_back(
        {.name = c.name,
         .inputs = gradient ? std::vector{x, x, parameter} : std::vector{x, parameter, parameter},
         .attrs = {{"groups", c.groups}, {"data_format", c.format}},
         .check_gradient = c.x.num_elements() < 200});
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
  return {{"groups", AttrType::kInt},
          {"epsilon", AttrType::kFloat, 1e-5},
          {"data_format", AttrType::kString, std::string("NHWC")}};
}

}  // namespace

OpDef GroupNormDef() {
  return {.name = "GroupNorm",
          .summary = "normalisation of groups of channels of each image",
          .min_inputs = 3,
          .max_inputs = 3,
          .attrs = Attrs(),
          .infer = Infer,
          .grad = Grad,
          .cpu = Cpu,
          .reference = Reference,
          .samples = Samples};
}

OpDef GroupNormGradDef() {
  return {.name = "GroupNormGrad",
          .summary = "gradients of GroupNorm",
          .min_inputs = 3,
          .max_inputs = 3,
          .attrs = Attrs(),
          .infer = GradInfer,
          .cpu = GradCpu,
          .reference = GradReference,
          .samples = GradSamples};
}

Value GroupNorm(BuildContext ctx, Value x, Value scale, Value offset, int64_t groups,
                double epsilon, std::string_view data_format) {
  return ctx.Add(
      "GroupNorm", {x, scale, offset},
      {{"groups", groups}, {"epsilon", epsilon}, {"data_format", std::string(data_format)}});
}

}  // namespace lockstep::op
