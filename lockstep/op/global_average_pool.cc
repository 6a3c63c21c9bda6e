#include <fmt/format.h>

#include <algorithm>

#include "lockstep/graph/grad_context.h"
#include "lockstep/graph/op_def.h"
#include "lockstep/op/internal/element.h"
#include "lockstep/op/internal/image_layout.h"
#include "lockstep/op/internal/parallel.h"
#include "lockstep/op/pool.h"

namespace lockstep::op {
namespace {

using internal::ImageAxes;
using internal::ImageLayout;
using internal::ImageView;

constexpr int64_t kLanes = 8;

Status CheckImage(const Shape& x, const ImageAxes& axes) {
  if (x.rank() != 4) {
    return InvalidArgument(fmt::format("pooling of {}, expected rank 4", x.ToString()));
  }
  if (x[axes.h] == 0 || x[axes.w] == 0) {
    return InvalidArgument(fmt::format("the mean over no pixels of {}", x.ToString()));
  }
  return OkStatus();
}

Status Infer(InferContext& ctx) {
  LS_TRY(ctx.ExpectFloating(0));
  LS_ASSIGN_OR_RETURN(const ImageAxes axes, internal::ParseDataFormat(ctx.attrs()));
  LS_TRY(CheckImage(ctx.shape(0), axes));
  ctx.AddOutput(ctx.dtype(0), Shape{ctx.shape(0)[axes.n], ctx.shape(0)[axes.c]});
  return OkStatus();
}

Status GradInfer(InferContext& ctx) {
  LS_TRY(ctx.ExpectFloating(0));
  LS_TRY(ctx.ExpectSameDType(0, 1));
  LS_ASSIGN_OR_RETURN(const ImageAxes axes, internal::ParseDataFormat(ctx.attrs()));
  LS_TRY(CheckImage(ctx.shape(1), axes));
  const Shape expected{ctx.shape(1)[axes.n], ctx.shape(1)[axes.c]};
  if (!ctx.shape(0).CompatibleWith(expected)) {
    return InvalidArgument(fmt::format("the output gradient has the shape {}, expected {}",
                                       ctx.shape(0).ToString(), expected.ToString()));
  }
  ctx.AddOutput(ctx.dtype(0), ctx.shape(1));
  return OkStatus();
}

Status Grad(GradContext& ctx) {
  const BuildContext build = ctx;
  ctx.SetGrad(0, build.Add("GlobalAveragePoolGrad", {ctx.dy(), ctx.input(0)}, ctx.attrs()));
  return OkStatus();
}

Status GradGrad(GradContext& ctx) {
  const BuildContext build = ctx;
  ctx.SetGrad(0, build.Add("GlobalAveragePool", {ctx.dy()}, ctx.attrs()));
  return OkStatus();
}

// Rows are summed first, so that rounding errors grow with the sides of the image, not its area.
template <class T>
void MeanOfPlane(const ImageView& view, const T* x, int64_t lane, int64_t lanes, T* y) {
  float total[kLanes] = {};
  for (int64_t i = 0; i < view.h; ++i) {
    float sum[kLanes] = {};
    const T* row = x + i * view.row_stride + lane;
    if (lanes == kLanes) {
      for (int64_t j = 0; j < view.w; ++j) {
        for (int64_t l = 0; l < kLanes; ++l) {
          sum[l] += internal::LoadFloat(row[j * view.pixel_stride + l]);
        }
      }
    } else {
      for (int64_t j = 0; j < view.w; ++j) {
        for (int64_t l = 0; l < lanes; ++l) {
          sum[l] += internal::LoadFloat(row[j * view.pixel_stride + l]);
        }
      }
    }
    for (int64_t l = 0; l < kLanes; ++l) {
      total[l] += sum[l];
    }
  }
  const auto count = static_cast<float>(view.pixels());
  for (int64_t l = 0; l < lanes; ++l) {
    internal::StoreFloat(y[lane + l], total[l] / count);
  }
}

// Channels of a plane that are not padding.
int64_t RealLanes(const ImageView& view, int64_t plane) {
  return std::min(view.lanes, view.channels - plane % view.blocks * view.lanes);
}

int64_t OutputOffset(const ImageView& view, int64_t plane) {
  return plane / view.blocks * view.channels + plane % view.blocks * view.lanes;
}

Result<Kernel> Cpu(const KernelRequest& request) {
  const Shape& x = request.inputs[0].shape;
  LS_ASSIGN_OR_RETURN(const ImageAxes axes, internal::ParseDataFormat(request.node.attrs));
  const ImageLayout image = internal::ClassifyOrPlain(x, axes, request.inputs[0].layout);
  const ImageView view = internal::ViewImage(x, axes, image);
  return internal::DispatchElement(
      request.inputs[0].dtype, "GlobalAveragePool", [&](auto element) -> Result<Kernel> {
        using T = decltype(element);
        Kernel kernel;
        kernel.input_layouts = {internal::ToLayout(x, axes, image)};
        kernel.output_layouts = {Layout()};
        kernel.run = [view, threads = request.threads](const KernelArgs& args) {
          ParallelFor(threads, view.planes(), 1, [&](int64_t begin, int64_t end) {
            for (int64_t plane = begin; plane < end; ++plane) {
              const int64_t lanes = RealLanes(view, plane);
              for (int64_t lane = 0; lane < lanes; lane += kLanes) {
                MeanOfPlane(view, args.in<T>(0) + view.PlaneOffset(plane), lane,
                            std::min(kLanes, lanes - lane),
                            args.out<T>(0) + OutputOffset(view, plane));
              }
            }
          });
          return OkStatus();
        };
        return kernel;
      });
}

Result<Kernel> GradCpu(const KernelRequest& request) {
  const Shape& x = request.inputs[1].shape;
  LS_ASSIGN_OR_RETURN(const ImageAxes axes, internal::ParseDataFormat(request.node.attrs));
  const ImageLayout image = internal::ConvolutionImage(axes, x[axes.c]);
  const ImageView view = internal::ViewImage(x, axes, image);
  return internal::DispatchElement(
      request.inputs[0].dtype, "GlobalAveragePoolGrad", [&](auto element) -> Result<Kernel> {
        using T = decltype(element);
        Kernel kernel;
        kernel.output_layouts = {internal::ToLayout(x, axes, image)};
        kernel.run = [view, threads = request.threads](const KernelArgs& args) {
          ParallelFor(threads, view.planes(), 1, [&](int64_t begin, int64_t end) {
            const float scale = 1.0F / static_cast<float>(view.pixels());
            for (int64_t plane = begin; plane < end; ++plane) {
              const T* dy = args.in<T>(0) + OutputOffset(view, plane);
              T* dx = args.out<T>(0) + view.PlaneOffset(plane);
              const int64_t lanes = RealLanes(view, plane);
              for (int64_t pixel = 0; pixel < view.pixels(); ++pixel) {
                for (int64_t l = 0; l < lanes; ++l) {
                  internal::StoreFloat(dx[pixel * view.lanes + l],
                                       internal::LoadFloat(dy[l]) * scale);
                }
                std::fill(dx + pixel * view.lanes + lanes, dx + (pixel + 1) * view.lanes, T());
              }
            }
          });
          return OkStatus();
        };
        return kernel;
      });
}

// Calls visit(element of the image, element of the mean).
template <class Visit>
void VisitImage(const ReferenceContext& ctx, const Shape& x, const Visit& visit) {
  const bool channels_last = ctx.node.attrs.GetString("data_format") == "NHWC";
  const int64_t pixels = channels_last ? x[1] * x[2] : x[2] * x[3];
  const int64_t channels = channels_last ? x[3] : x[1];
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    const int64_t n = i / (pixels * channels);
    const int64_t c = channels_last ? i % channels : i / pixels % channels;
    visit(static_cast<size_t>(i), static_cast<size_t>(n * channels + c),
          static_cast<double>(pixels));
  }
}

Status Reference(const ReferenceContext& ctx) {
  VisitImage(ctx, ctx.input_shapes[0], [&ctx](size_t i, size_t mean, double pixels) {
    ctx.outputs[0][mean] += ctx.inputs[0][i] / pixels;
  });
  return OkStatus();
}

Status GradReference(const ReferenceContext& ctx) {
  VisitImage(ctx, ctx.input_shapes[1], [&ctx](size_t i, size_t mean, double pixels) {
    ctx.outputs[0][i] = ctx.inputs[0][mean] / pixels;
  });
  return OkStatus();
}

AttrMap Nchw() {
  return {{"data_format", std::string("NCHW")}};
}

std::vector<Sample> Samples() {
  return {{.name = "nhwc", .inputs = {{.shape = {2, 3, 5, 11}}}},
          {.name = "whole_vectors", .inputs = {{.shape = {2, 3, 2, 16}}}},
          {.name = "nchw", .inputs = {{.shape = {2, 4, 3, 5}}}, .attrs = Nchw()},
          {.name = "bfloat16",
           .inputs = {{.shape = {2, 3, 2, 8}, .dtype = DType::kBFloat16}},
           .tolerance = 2e-2}};
}

std::vector<Sample> GradSamples() {
  return {
      {.name = "nhwc", .inputs = {{.shape = {2, 11}}, {.shape = {2, 3, 5, 11}}}},
      {.name = "nchw", .inputs = {{.shape = {2, 4}}, {.shape = {2, 4, 3, 5}}}, .attrs = Nchw()}};
}

std::vector<AttrDef> Attrs() {
  return {{"data_format", AttrType::kString, std::string("NHWC")}};
}

}  // namespace

OpDef GlobalAveragePoolDef() {
  return {.name = "GlobalAveragePool",
          .summary = "mean over the pixels of each channel",
          .min_inputs = 1,
          .max_inputs = 1,
          .attrs = Attrs(),
          .infer = Infer,
          .grad = Grad,
          .cpu = Cpu,
          .reference = Reference,
          .samples = Samples};
}

OpDef GlobalAveragePoolGradDef() {
  return {.name = "GlobalAveragePoolGrad",
          .summary = "gradient of GlobalAveragePool by its input",
          .min_inputs = 2,
          .max_inputs = 2,
          .attrs = Attrs(),
          .infer = GradInfer,
          .grad = GradGrad,
          .cpu = GradCpu,
          .reference = GradReference,
          .samples = GradSamples,
          .shape_only_inputs = 1U << 1};
}

Value GlobalAveragePool(BuildContext ctx, Value x, std::string_view data_format) {
  return ctx.Add("GlobalAveragePool", {x}, {{"data_format", std::string(data_format)}});
}

}  // namespace lockstep::op
