#include "lockstep/op/internal/conv_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "lockstep/op/internal/conv_filter_grad.h"
#include "lockstep/op/internal/onednn.h"
#include "lockstep/op/internal/winograd.h"

namespace lockstep::op::internal {
namespace {

using Dims = dnnl::memory::dims;
using Desc = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;

DimOrder ImageOrder(const ConvSpec& spec) {
  return spec.axes.c == 3 ? kNhwcOrder : kSameOrder;
}

// How the images lie: oneDNN's choice (blocked by channels), or channels innermost.
enum class Images { kAny, kChannelsLast };

// Blocked layouts need whole vectors of channels, else they are padded and the element-wise ops
// behind the convolution cannot keep them. A few input channels are read unblocked anyway.
std::vector<Images> Preferences(const ConvSpec& spec) {
  const int64_t vector = VectorWidth();
  const auto whole = [vector](int64_t channels) { return channels % vector == 0; };
  const bool blocks =
      whole(spec.out_channels()) &&
      (whole(spec.in_channels()) || (spec.in_channels() <= kNarrowChannels && spec.groups == 1));
  return blocks ? std::vector{Images::kAny, Images::kChannelsLast}
                : std::vector{Images::kChannelsLast, Images::kAny};
}

// The filter as oneDNN sees it; grouped ones have a dimension more.
Desc FilterDesc(const ConvSpec& spec, dnnl::memory::data_type type, bool any) {
  if (spec.groups == 1) {
    return any ? AnyDesc(spec.filter, type, kHwioOrder)
               : ToDesc(spec.filter, type, Layout(), kHwioOrder);
  }
  const int64_t h = spec.filter[0];
  const int64_t w = spec.filter[1];
  const int64_t in = spec.filter[2];
  const int64_t out = spec.filter[3];
  const Dims dims = {spec.groups, out / spec.groups, in, h, w};
  return any ? Desc(dims, type, Tag::any)
             : Desc(dims, type, Dims{out / spec.groups, 1, out, w * in * out, in * out});
}

// What the three primitives are made from.
struct Problem {
  Desc x;
  Desc filter;
  Desc y;
  Dims strides;
  Dims dilations;
  Dims pad_low;
  Dims pad_high;
};

Problem MakeProblem(const ConvSpec& spec, Images images, dnnl::memory::data_type type) {
  const Window& h = spec.windows.h;
  const Window& w = spec.windows.w;
  const Tag tag = images == Images::kAny ? Tag::any : Tag::nhwc;
  return {.x = Desc(ToDims(spec.x, ImageOrder(spec)), type, tag),
          .filter = FilterDesc(spec, type, true),
          .y = Desc(ToDims(spec.y, ImageOrder(spec)), type, tag),
          .strides = {h.stride, w.stride},
          .dilations = {h.dilation - 1, w.dilation - 1},
          .pad_low = {h.pad_low, w.pad_low},
          .pad_high = {h.pad_high, w.pad_high}};
}

dnnl::convolution_forward::primitive_desc MakeForwardDesc(const Problem& p, const Desc* bias,
                                                          const dnnl::primitive_attr& attr,
                                                          const dnnl::engine& engine) {
  constexpr auto kTraining = dnnl::prop_kind::forward_training;
  constexpr auto kDirect = dnnl::algorithm::convolution_direct;
  const auto desc =
      bias != nullptr
          ? dnnl::convolution_forward::desc(kTraining, kDirect, p.x, p.filter, *bias, p.y,
                                            p.strides, p.dilations, p.pad_low, p.pad_high)
          : dnnl::convolution_forward::desc(kTraining, kDirect, p.x, p.filter, p.y, p.strides,
                                            p.dilations, p.pad_low, p.pad_high);
  return {desc, attr, engine};
}

// Tries the layouts in order of preference. `make` returns a primitive descriptor or throws;
// reference implementations are accepted only for float32 and only where nothing else exists.
template <class Make>
auto ChooseDesc(const ConvSpec& spec, const Make& make)
    -> Result<decltype(make(std::declval<const Problem&>()))> {
  using PrimitiveDesc = decltype(make(std::declval<const Problem&>()));
  LS_ASSIGN_OR_RETURN(const auto type, ToDataType(spec.dtype));
  std::optional<PrimitiveDesc> last_resort;
  for (const Images images : Preferences(spec)) {
    const Result<PrimitiveDesc> desc =
        Guarded([&]() -> Result<PrimitiveDesc> { return make(MakeProblem(spec, images, type)); });
    if (desc.ok() && !IsReferenceImplementation(desc->impl_info_str())) {
      return desc;
    }
    if (desc.ok() && spec.dtype == DType::kFloat32) {
      last_resort = *desc;
    }
  }
  if (last_resort.has_value()) {
    return *last_resort;
  }
  return Unimplemented(
      fmt::format("oneDNN has no fast convolution for {} on this machine", DTypeName(spec.dtype)));
}

// A filter that a Layout cannot describe (grouped ones) stays plain in the plan and is converted
// inside the kernel.
class FilterStage {
 public:
  // May throw.
  FilterStage(const ConvSpec& spec, const Desc& wanted, bool written, const dnnl::engine& engine) {
    if (spec.groups == 1) {
      layout_ = ToLayout(spec.filter, wanted, kHwioOrder);
    }
    const Desc plain =
        FilterDesc(spec, static_cast<dnnl::memory::data_type>(wanted.data.data_type), false);
    if (layout_.has_value() || plain == wanted) {
      return;
    }
    bytes_ = wanted.get_size();
    const Desc& from = written ? wanted : plain;
    const Desc& to = written ? plain : wanted;
    const dnnl::reorder::primitive_desc desc(engine, from, engine, to, UserScratchAttr());
    call_.emplace(engine, dnnl::reorder(desc),
                  std::vector<OnednnCall::Arg>{{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}},
                  desc.scratchpad_desc(), spec.threads);
  }

  Layout layout() const { return layout_.value_or(Layout()); }

  bool active() const { return call_.has_value(); }

  // Of the converted filter, and of all.
  size_t filter_bytes() const { return (bytes_ + 63) / 64 * 64; }

  size_t scratch_bytes() const {
    return active() ? filter_bytes() + call_->scratch_bytes() : size_t{0};
  }

  Status Convert(const void* from, void* to, char* scratch) const {
    return call_->Run({from, to}, scratch + filter_bytes());
  }

 private:
  std::optional<Layout> layout_;
  std::optional<OnednnCall> call_;
  size_t bytes_ = 0;
};

Result<Layout> ImageLayout(const Shape& shape, const ConvSpec& spec, const Desc& desc) {
  const std::optional<Layout> layout = ToLayout(shape, desc, ImageOrder(spec));
  if (!layout.has_value()) {
    return Unimplemented("oneDNN chose a layout that a plan cannot hold");
  }
  return *layout;
}

size_t RoundUp(size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

// A kernel that has no products to add up: writes zeros.
Kernel MakeZeroKernel(size_t bytes) {
  Kernel kernel;
  kernel.run = [bytes](const KernelArgs& args) {
    std::memset(args.outputs[0], 0, bytes);
    return OkStatus();
  };
  return kernel;
}

}  // namespace

Result<Kernel> MakeConvForward(const ConvSpec& spec, const ConvFusion& fusion) {
  if (spec.batch() == 0) {
    return MakeZeroKernel(0);
  }
  if (!fusion.sum && WinogradSuits(spec)) {
    return MakeWinogradForward(spec, fusion.bias, fusion.relu);
  }
  const OnednnThreads threads(spec.threads);
  LS_ASSIGN_OR_RETURN(const auto type, ToDataType(spec.dtype));
  return Guarded([&]() -> Result<Kernel> {
    const dnnl::engine engine = CpuEngine();
    dnnl::primitive_attr attr = UserScratchAttr();
    dnnl::post_ops ops;
    if (fusion.sum) {
      ops.append_sum(1.0F);
    }
    if (fusion.relu) {
      ops.append_eltwise(1.0F, dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
    }
    attr.set_post_ops(ops);
    const Desc bias({spec.out_channels()}, type, Tag::a);
    LS_ASSIGN_OR_RETURN(const auto desc, ChooseDesc(spec, [&](const Problem& problem) {
                          return MakeForwardDesc(problem, fusion.bias ? &bias : nullptr, attr,
                                                 engine);
                        }));
    LS_ASSIGN_OR_RETURN(const Layout x, ImageLayout(spec.x, spec, desc.src_desc()));
    LS_ASSIGN_OR_RETURN(const Layout y, ImageLayout(spec.y, spec, desc.dst_desc()));
    const FilterStage stage(spec, desc.weights_desc(), false, engine);
    std::vector<OnednnCall::Arg> args = {{DNNL_ARG_SRC, desc.src_desc()},
                                         {DNNL_ARG_WEIGHTS, desc.weights_desc()},
                                         {DNNL_ARG_DST, desc.dst_desc()}};
    Kernel kernel;
    kernel.input_layouts = {x, stage.layout()};
    kernel.output_layouts = {y};
    if (fusion.bias) {
      args.push_back({DNNL_ARG_BIAS, bias});
      kernel.input_layouts.push_back(Layout());
    }
    if (fusion.sum) {
      kernel.input_layouts.push_back(y);
      kernel.in_place = {3};
    }
    const OnednnCall call(engine, dnnl::convolution_forward(desc), args, desc.scratchpad_desc(),
                          spec.threads);
    const size_t stage_offset = RoundUp(call.scratch_bytes());
    kernel.scratch_bytes = stage_offset + stage.scratch_bytes();
    const size_t sum_bytes = fusion.sum ? y.Bytes(spec.y, spec.dtype) : 0;
    kernel.run = [=, with_bias = fusion.bias](const KernelArgs& run) -> Status {
      const void* filter = run.inputs[1];
      if (stage.active()) {
        char* staged = static_cast<char*>(run.scratch) + stage_offset;
        LS_TRY(stage.Convert(filter, staged, staged));
        filter = staged;
      }
      if (sum_bytes != 0 && run.inputs[3] != run.outputs[0]) {
        std::memcpy(run.outputs[0], run.inputs[3], sum_bytes);
      }
      return with_bias
                 ? call.Run({run.inputs[0], filter, run.outputs[0], run.inputs[2]}, run.scratch)
                 : call.Run({run.inputs[0], filter, run.outputs[0]}, run.scratch);
    };
    return kernel;
  });
}

Result<Kernel> MakeConvBackwardInput(const ConvSpec& spec) {
  if (spec.batch() == 0) {
    return MakeZeroKernel(0);
  }
  if (WinogradSuits(spec)) {
    return MakeWinogradBackwardInput(spec);
  }
  const OnednnThreads threads(spec.threads);
  return Guarded([&]() -> Result<Kernel> {
    const dnnl::engine engine = CpuEngine();
    LS_ASSIGN_OR_RETURN(const auto desc, ChooseDesc(spec, [&](const Problem& p) {
                          const auto hint = MakeForwardDesc(p, nullptr, UserScratchAttr(), engine);
                          return dnnl::convolution_backward_data::primitive_desc(
                              {dnnl::algorithm::convolution_direct, p.x, p.filter, p.y, p.strides,
                               p.dilations, p.pad_low, p.pad_high},
                              UserScratchAttr(), engine, hint);
                        }));
    LS_ASSIGN_OR_RETURN(const Layout x, ImageLayout(spec.x, spec, desc.diff_src_desc()));
    LS_ASSIGN_OR_RETURN(const Layout y, ImageLayout(spec.y, spec, desc.diff_dst_desc()));
    const FilterStage stage(spec, desc.weights_desc(), false, engine);
    const OnednnCall call(engine, dnnl::convolution_backward_data(desc),
                          {{DNNL_ARG_DIFF_DST, desc.diff_dst_desc()},
                           {DNNL_ARG_WEIGHTS, desc.weights_desc()},
                           {DNNL_ARG_DIFF_SRC, desc.diff_src_desc()}},
                          desc.scratchpad_desc(), spec.threads);
    const size_t stage_offset = RoundUp(call.scratch_bytes());
    Kernel kernel;
    kernel.input_layouts = {y, stage.layout(), Layout()};
    kernel.output_layouts = {x};
    kernel.scratch_bytes = stage_offset + stage.scratch_bytes();
    kernel.run = [=](const KernelArgs& run) -> Status {
      const void* filter = run.inputs[1];
      if (stage.active()) {
        char* staged = static_cast<char*>(run.scratch) + stage_offset;
        LS_TRY(stage.Convert(filter, staged, staged));
        filter = staged;
      }
      return call.Run({run.inputs[0], filter, run.outputs[0]}, run.scratch);
    };
    return kernel;
  });
}

Result<Kernel> MakeConvBackwardFilter(const ConvSpec& spec, const Layout& x_layout) {
  if (spec.batch() == 0) {
    return MakeZeroKernel(Layout().Bytes(spec.filter, spec.dtype));
  }
  if (WinogradSuits(spec)) {
    return MakeWinogradBackwardFilter(spec);
  }
  std::optional<Kernel> own = MakeAvx2FilterGrad(spec, x_layout);
  if (own.has_value()) {
    return *std::move(own);
  }
  const OnednnThreads threads(spec.threads);
  return Guarded([&]() -> Result<Kernel> {
    const dnnl::engine engine = CpuEngine();
    LS_ASSIGN_OR_RETURN(const auto desc, ChooseDesc(spec, [&](const Problem& p) {
                          const auto hint = MakeForwardDesc(p, nullptr, UserScratchAttr(), engine);
                          return dnnl::convolution_backward_weights::primitive_desc(
                              {dnnl::algorithm::convolution_direct, p.x, p.filter, p.y, p.strides,
                               p.dilations, p.pad_low, p.pad_high},
                              UserScratchAttr(), engine, hint);
                        }));
    LS_ASSIGN_OR_RETURN(const Layout x, ImageLayout(spec.x, spec, desc.src_desc()));
    LS_ASSIGN_OR_RETURN(const Layout y, ImageLayout(spec.y, spec, desc.diff_dst_desc()));
    const FilterStage stage(spec, desc.diff_weights_desc(), true, engine);
    const OnednnCall call(engine, dnnl::convolution_backward_weights(desc),
                          {{DNNL_ARG_SRC, desc.src_desc()},
                           {DNNL_ARG_DIFF_DST, desc.diff_dst_desc()},
                           {DNNL_ARG_DIFF_WEIGHTS, desc.diff_weights_desc()}},
                          desc.scratchpad_desc(), spec.threads);
    const size_t stage_offset = RoundUp(call.scratch_bytes());
    Kernel kernel;
    kernel.input_layouts = {x, y, Layout()};
    kernel.output_layouts = {stage.layout()};
    kernel.scratch_bytes = stage_offset + stage.scratch_bytes();
    kernel.run = [=](const KernelArgs& run) -> Status {
      if (!stage.active()) {
        return call.Run({run.inputs[0], run.inputs[1], run.outputs[0]}, run.scratch);
      }
      char* staged = static_cast<char*>(run.scratch) + stage_offset;
      LS_TRY(call.Run({run.inputs[0], run.inputs[1], staged}, run.scratch));
      return stage.Convert(staged, run.outputs[0], staged);
    };
    return kernel;
  });
}

}  // namespace lockstep::op::internal
