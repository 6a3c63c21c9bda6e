// Filter gradients of convolutions with a few input channels, as the first one of a model is. Each
// image is copied into planes with its padding as zeros; then every filter tap (kh, kw, channel) is
// one offset into them, and the gradient a matrix product of taps by pixels by output channels.
#include <immintrin.h>

#include <algorithm>
#include <array>

#include "lockstep/op/internal/conv_filter_grad.h"
#include "lockstep/op/internal/image_layout.h"
#include "lockstep/op/internal/parallel.h"

namespace lockstep::op::internal {
namespace {

constexpr int64_t kLanes = 8;
constexpr int64_t kTaps = 3;    // worked on together
constexpr int64_t kBlocks = 4;  // of output channels, worked on together
// Pixels whose kBlocks blocks of dy stay in the first-level cache.
constexpr int64_t kUnitPixels = 224;

struct NarrowPlan {
  ImageView x;
  ImageView dy;
  Window h;
  Window w;
  int64_t padded_h;
  int64_t padded_w;
  int64_t rows_in_unit;
  // Offsets of the taps in the padded planes, in the filter's order, filled up to a multiple of
  // kTaps by repeating the last.
  std::vector<int64_t> taps;
  int64_t tap_count;
  // Strides of x, whether its channels are lanes or blocks.
  int64_t channel_stride;
  int threads;

  size_t padded_floats() const { return static_cast<size_t>(x.channels * padded_h * padded_w); }
};

NarrowPlan MakePlan(const ConvSpec& spec, const ImageLayout& x_image) {
  const Window& h = spec.windows.h;
  const Window& w = spec.windows.w;
  NarrowPlan plan{.x = ViewImage(spec.x, spec.axes, x_image),
                  .dy = ViewImage(spec.y, spec.axes, {ImageLayout::Kind::kBlocked, kLanes}),
                  .h = h,
                  .w = w,
                  .padded_h = (h.output - 1) * h.stride + h.reach(),
                  .padded_w = (w.output - 1) * w.stride + w.reach(),
                  .rows_in_unit = std::max<int64_t>(1, kUnitPixels / w.output),
                  .taps = {},
                  .tap_count = h.size * w.size * spec.in_channels(),
                  .channel_stride = 0,
                  .threads = spec.threads};
  plan.channel_stride = plan.x.blocks > 1 ? plan.x.block_stride : 1;
  for (int64_t tap = 0; tap < plan.tap_count; ++tap) {
    const int64_t channel = tap % spec.in_channels();
    const int64_t kw = tap / spec.in_channels() % w.size;
    const int64_t kh = tap / spec.in_channels() / w.size;
    plan.taps.push_back((channel * plan.padded_h + kh * h.dilation) * plan.padded_w +
                        kw * w.dilation);
  }
  while (plan.taps.size() % kTaps != 0) {
    plan.taps.push_back(plan.taps.back());
  }
  return plan;
}

// The borders are zero already.
void CopyPadded(const NarrowPlan& plan, const float* image, float* padded) {
  const int64_t rows = std::min(plan.x.h, plan.padded_h - plan.h.pad_low);
  const int64_t columns = std::min(plan.x.w, plan.padded_w - plan.w.pad_low);
  for (int64_t c = 0; c < plan.x.channels; ++c) {
    for (int64_t i = 0; i < rows; ++i) {
      const float* from = image + c * plan.channel_stride + i * plan.x.row_stride;
      float* to =
          padded + (c * plan.padded_h + i + plan.h.pad_low) * plan.padded_w + plan.w.pad_low;
      for (int64_t j = 0; j < columns; ++j) {
        to[j] = from[j * plan.x.pixel_stride];
      }
    }
  }
}

// Rows [begin, end) for kTaps taps and kCount blocks of output channels.
template <int kCount>
void AddTaps(const NarrowPlan& plan, const float* padded, const float* dy, int64_t begin,
             int64_t end, int64_t first_tap, float* filter) {
  const int64_t* taps = plan.taps.data() + first_tap;
  __m256 sums[kCount][kTaps];
#pragma GCC unroll 4
  for (int b = 0; b < kCount; ++b) {
#pragma GCC unroll 3
    for (int t = 0; t < kTaps; ++t) {
      sums[b][t] = _mm256_setzero_ps();
    }
  }
  for (int64_t i = begin; i < end; ++i) {
    const float* row = padded + i * plan.h.stride * plan.padded_w;
    const float* gradient = dy + i * plan.dy.row_stride;
    for (int64_t j = 0; j < plan.w.output; ++j) {
      __m256 values[kTaps];
#pragma GCC unroll 3
      for (int t = 0; t < kTaps; ++t) {
        values[t] = _mm256_broadcast_ss(row + taps[t]);
      }
#pragma GCC unroll 4
      for (int b = 0; b < kCount; ++b) {
        const __m256 vector = _mm256_loadu_ps(gradient + b * plan.dy.block_stride);
#pragma GCC unroll 3
        for (int t = 0; t < kTaps; ++t) {
          sums[b][t] = _mm256_fmadd_ps(values[t], vector, sums[b][t]);
        }
      }
      row += plan.w.stride;
      gradient += kLanes;
    }
  }
  const int64_t count = std::min(kTaps, plan.tap_count - first_tap);
#pragma GCC unroll 4
  for (int b = 0; b < kCount; ++b) {
#pragma GCC unroll 3
    for (int t = 0; t < kTaps; ++t) {
      if (t < count) {
        float* at = filter + (b * plan.tap_count + first_tap + t) * kLanes;
        _mm256_storeu_ps(at, _mm256_add_ps(_mm256_loadu_ps(at), sums[b][t]));
      }
    }
  }
}

void AddImage(const NarrowPlan& plan, const float* padded, const float* dy, int64_t ob,
              int64_t count, float* filter) {
  dy += ob * plan.dy.block_stride;
  filter += ob * plan.tap_count * kLanes;
  for (int64_t begin = 0; begin < plan.h.output; begin += plan.rows_in_unit) {
    const int64_t end = std::min(plan.h.output, begin + plan.rows_in_unit);
    for (int64_t tap = 0; tap < plan.tap_count; tap += kTaps) {
      switch (count) {
        case 4:
          AddTaps<4>(plan, padded, dy, begin, end, tap, filter);
          break;
        case 3:
          AddTaps<3>(plan, padded, dy, begin, end, tap, filter);
          break;
        case 2:
          AddTaps<2>(plan, padded, dy, begin, end, tap, filter);
          break;
        default:
          AddTaps<1>(plan, padded, dy, begin, end, tap, filter);
          break;
      }
    }
  }
}

void RunNarrow(const NarrowPlan& plan, const float* x, const float* dy, float* filter,
               float* padded) {
  std::fill_n(filter, plan.dy.blocks * plan.tap_count * kLanes, 0.0F);
  std::fill_n(padded, plan.padded_floats(), 0.0F);
  for (int64_t n = 0; n < plan.x.images; ++n) {
    CopyPadded(plan, x + n * plan.x.image_stride, padded);
    ParallelFor(plan.threads, plan.dy.blocks, kBlocks, [&](int64_t begin, int64_t end) {
      for (int64_t ob = begin; ob < end; ob += kBlocks) {
        AddImage(plan, padded, dy + n * plan.dy.image_stride, ob, std::min(kBlocks, end - ob),
                 filter);
      }
    });
  }
}

}  // namespace

Kernel MakeNarrowFilterGrad(const ConvSpec& spec, const Layout& x_layout) {
  std::optional<ImageLayout> image = ClassifyImage(spec.x, spec.axes, x_layout);
  if (!image.has_value() || image->kind == ImageLayout::Kind::kBlocked) {
    image = ImageLayout{ImageLayout::Kind::kChannelsFirst, 1};
  }
  const NarrowPlan plan = MakePlan(spec, *image);
  const std::array<int64_t, 4> strides = {spec.filter[1] * spec.filter[2] * kLanes,
                                          spec.filter[2] * kLanes, kLanes, plan.tap_count * kLanes};
  const std::array<Layout::Block, 1> block = {Layout::Block{3, kLanes}};
  Kernel kernel;
  kernel.input_layouts = {ToLayout(spec.x, spec.axes, *image),
                          ToLayout(spec.y, spec.axes, {ImageLayout::Kind::kBlocked, kLanes}),
                          Layout()};
  kernel.output_layouts = {Layout::Blocked(spec.filter, spec.filter.dims(), strides, block)};
  kernel.scratch_bytes = plan.padded_floats() * sizeof(float);
  kernel.run = [plan](const KernelArgs& args) {
    RunNarrow(plan, args.in<float>(0), args.in<float>(1), args.out<float>(0),
              static_cast<float*>(args.scratch));
    return OkStatus();
  };
  return kernel;
}

}  // namespace lockstep::op::internal
