#include "lockstep/op/internal/conv_filter_grad.h"

#include <immintrin.h>

#include <algorithm>
#include <array>

#include "lockstep/op/internal/image_layout.h"
#include "lockstep/op/internal/onednn.h"
#include "lockstep/op/internal/parallel.h"

namespace lockstep::op::internal {
namespace {

constexpr int64_t kLanes = 8;
constexpr int64_t kBlock = kLanes * kLanes;  // of a filter: 8 input times 8 output channels
// Pixels of a unit of work: one block of channels of x and of dy stay in the first-level cache.
constexpr int64_t kUnitPixels = 392;
// Accumulators: kInputs input channels times as many vectors of output channels or taps as fit.
constexpr int kInputs = 4;

// Output rows [begin, end) of images [first, last).
struct Unit {
  int64_t first;
  int64_t last;
  int64_t begin;
  int64_t end;
};

std::vector<Unit> MakeUnits(int64_t images, const Window& h, const Window& w, int64_t pixels) {
  std::vector<Unit> units;
  const int64_t plane = h.output * w.output;
  if (plane >= pixels) {
    const int64_t parts = (plane + pixels - 1) / pixels;
    const int64_t rows = (h.output + parts - 1) / parts;
    for (int64_t n = 0; n < images; ++n) {
      for (int64_t begin = 0; begin < h.output; begin += rows) {
        units.push_back({n, n + 1, begin, std::min(h.output, begin + rows)});
      }
    }
    return units;
  }
  const int64_t together = pixels / plane;
  for (int64_t n = 0; n < images; n += together) {
    units.push_back({n, std::min(images, n + together), 0, h.output});
  }
  return units;
}

// Outputs whose tap `tap` lies inside the input.
struct Range {
  int64_t begin;
  int64_t end;
};

Range ValidOutputs(const Window& window, int64_t tap) {
  const int64_t shift = tap * window.dilation - window.pad_low;
  const int64_t begin = shift >= 0 ? 0 : (-shift + window.stride - 1) / window.stride;
  const int64_t last = window.input - 1 - shift;
  return {begin, last < 0 ? 0 : std::min(window.output, last / window.stride + 1)};
}

// Adds `columns` times kInputs vectors to the filter gradient, `stride` floats between columns.
template <int kColumns>
void AddTo(float* target, int64_t stride, const __m256 (&sums)[kColumns][kInputs]) {
#pragma GCC unroll 4
  for (int c = 0; c < kColumns; ++c) {
#pragma GCC unroll 4
    for (int i = 0; i < kInputs; ++i) {
      float* at = target + c * stride + i * kLanes;
      _mm256_storeu_ps(at, _mm256_add_ps(_mm256_loadu_ps(at), sums[c][i]));
    }
  }
}

struct Geometry {
  ImageView x;
  ImageView dy;
  Window h;
  Window w;
};

// Three taps of a row at once, stride 1: each pixel of x meets three neighbouring pixels of dy, of
// which two are still in registers.
class RowOfThree {
 public:
  explicit RowOfThree(const Geometry& g)
      : pad_(g.w.pad_low),
        input_(g.w.input),
        output_(g.w.output),
        inner_begin_(std::clamp<int64_t>(2 - pad_, 0, input_)),
        inner_end_(std::clamp(output_ - pad_, inner_begin_, input_)) {}

  void Run(const float* x, const float* dy, __m256 (&sums)[3][kInputs]) const {
    for (int64_t i = 0; i < inner_begin_; ++i) {
      Edge(x, dy, i, sums);
    }
    if (inner_begin_ < inner_end_) {
      const float* next = dy + (inner_begin_ + pad_) * kLanes;
      __m256 before = _mm256_loadu_ps(next - 2 * kLanes);
      __m256 middle = _mm256_loadu_ps(next - kLanes);
      for (int64_t i = inner_begin_; i < inner_end_; ++i, next += kLanes) {
        const __m256 after = _mm256_loadu_ps(next);
#pragma GCC unroll 4
        for (int c = 0; c < kInputs; ++c) {
          const __m256 value = _mm256_broadcast_ss(x + i * kLanes + c);
          sums[0][c] = _mm256_fmadd_ps(value, after, sums[0][c]);
          sums[1][c] = _mm256_fmadd_ps(value, middle, sums[1][c]);
          sums[2][c] = _mm256_fmadd_ps(value, before, sums[2][c]);
        }
        before = middle;
        middle = after;
      }
    }
    for (int64_t i = inner_end_; i < input_; ++i) {
      Edge(x, dy, i, sums);
    }
  }

 private:
  void Edge(const float* x, const float* dy, int64_t i, __m256 (&sums)[3][kInputs]) const {
#pragma GCC unroll 3
    for (int tap = 0; tap < 3; ++tap) {
      const int64_t at = i + pad_ - tap;
      if (at >= 0 && at < output_) {
        const __m256 gradient = _mm256_loadu_ps(dy + at * kLanes);
#pragma GCC unroll 4
        for (int c = 0; c < kInputs; ++c) {
          const __m256 value = _mm256_broadcast_ss(x + i * kLanes + c);
          sums[tap][c] = _mm256_fmadd_ps(value, gradient, sums[tap][c]);
        }
      }
    }
  }

  int64_t pad_;
  int64_t input_;
  int64_t output_;
  int64_t inner_begin_;
  int64_t inner_end_;
};

// All images and rows of a unit for one row of three taps; x and dy point to the block of channels
// in the first image, x already to the first of the kInputs channels.
void ThreeTaps(const Geometry& g, const RowOfThree& row, const Unit& unit, int64_t kh,
               const float* x, const float* dy, float* filter) {
  const Range valid = ValidOutputs(g.h, kh);
  const int64_t begin = std::max(unit.begin, valid.begin);
  const int64_t end = std::min(unit.end, valid.end);
  __m256 sums[3][kInputs];
#pragma GCC unroll 3
  for (int tap = 0; tap < 3; ++tap) {
#pragma GCC unroll 4
    for (int c = 0; c < kInputs; ++c) {
      sums[tap][c] = _mm256_setzero_ps();
    }
  }
  for (int64_t n = unit.first; n < unit.last; ++n) {
    for (int64_t oh = begin; oh < end; ++oh) {
      const int64_t ih = oh + kh * g.h.dilation - g.h.pad_low;
      row.Run(x + n * g.x.image_stride + ih * g.x.row_stride,
              dy + n * g.dy.image_stride + oh * g.dy.row_stride, sums);
    }
  }
  AddTo<3>(filter, kBlock, sums);
}

// Three taps of a row for any stride and dilation: each pixel of dy meets three pixels of x.
class RowOfAnyStride {
 public:
  static constexpr int kChannels = 2;
  static constexpr int kBlocks = 2;
  using Sums = __m256[kBlocks][3][kChannels];

  explicit RowOfAnyStride(const Geometry& g)
      : step_(g.w.stride * kLanes), tap_step_(g.w.dilation * kLanes) {
    const Range first = ValidOutputs(g.w, 0);
    const Range last = ValidOutputs(g.w, 2);
    inner_ = {std::max(first.begin, last.begin), std::min(first.end, last.end)};
    inner_.end = std::max(inner_.begin, inner_.end);
    for (int tap = 0; tap < 3; ++tap) {
      valid_[static_cast<size_t>(tap)] = ValidOutputs(g.w, tap);
    }
    origin_ = -g.w.pad_low * kLanes;
  }

  // x points to column 0 of the row; dy_stride lies between the blocks of dy.
  void Run(const float* x, const float* dy, int64_t dy_stride, Sums& sums) const {
    x += origin_;
    for (int64_t o = inner_.begin; o < inner_.end; ++o) {
      const __m256 first = _mm256_loadu_ps(dy + o * kLanes);
      const __m256 second = _mm256_loadu_ps(dy + o * kLanes + dy_stride);
      const float* pixel = x + o * step_;
#pragma GCC unroll 3
      for (int tap = 0; tap < 3; ++tap) {
#pragma GCC unroll 2
        for (int c = 0; c < kChannels; ++c) {
          const __m256 value = _mm256_broadcast_ss(pixel + tap * tap_step_ + c);
          sums[0][tap][c] = _mm256_fmadd_ps(value, first, sums[0][tap][c]);
          sums[1][tap][c] = _mm256_fmadd_ps(value, second, sums[1][tap][c]);
        }
      }
    }
#pragma GCC unroll 3
    for (int tap = 0; tap < 3; ++tap) {
      const Range& valid = valid_[static_cast<size_t>(tap)];
      for (int64_t o = valid.begin; o < valid.end; ++o) {
        if (o == inner_.begin && inner_.begin < inner_.end) {
          o = inner_.end - 1;
          continue;
        }
        const __m256 first = _mm256_loadu_ps(dy + o * kLanes);
        const __m256 second = _mm256_loadu_ps(dy + o * kLanes + dy_stride);
#pragma GCC unroll 2
        for (int c = 0; c < kChannels; ++c) {
          const __m256 value = _mm256_broadcast_ss(x + o * step_ + tap * tap_step_ + c);
          sums[0][tap][c] = _mm256_fmadd_ps(value, first, sums[0][tap][c]);
          sums[1][tap][c] = _mm256_fmadd_ps(value, second, sums[1][tap][c]);
        }
      }
    }
  }

 private:
  int64_t step_;
  int64_t tap_step_;
  int64_t origin_ = 0;
  Range inner_{};
  std::array<Range, 3> valid_{};
};

// The same as ThreeTaps for two channels of x and two blocks of dy. A missing second block is given
// as the first (dy_stride 0) with filter_stride 0: its sums are dropped.
void ThreeTapsAnyStride(const Geometry& g, const RowOfAnyStride& row, const Unit& unit, int64_t kh,
                        const float* x, const float* dy, int64_t dy_stride, float* filter,
                        int64_t filter_stride) {
  const Range valid = ValidOutputs(g.h, kh);
  const int64_t begin = std::max(unit.begin, valid.begin);
  const int64_t end = std::min(unit.end, valid.end);
  RowOfAnyStride::Sums sums;
#pragma GCC unroll 2
  for (int b = 0; b < 2; ++b) {
#pragma GCC unroll 3
    for (int tap = 0; tap < 3; ++tap) {
#pragma GCC unroll 2
      for (int c = 0; c < 2; ++c) {
        sums[b][tap][c] = _mm256_setzero_ps();
      }
    }
  }
  for (int64_t n = unit.first; n < unit.last; ++n) {
    for (int64_t oh = begin; oh < end; ++oh) {
      const int64_t ih = oh * g.h.stride + kh * g.h.dilation - g.h.pad_low;
      row.Run(x + n * g.x.image_stride + ih * g.x.row_stride,
              dy + n * g.dy.image_stride + oh * g.dy.row_stride, dy_stride, sums);
    }
  }
  const int blocks = filter_stride == 0 ? 1 : 2;
#pragma GCC unroll 2
  for (int b = 0; b < 2; ++b) {
#pragma GCC unroll 3
    for (int tap = 0; tap < 3; ++tap) {
#pragma GCC unroll 2
      for (int c = 0; c < 2; ++c) {
        float* at = filter + b * filter_stride + tap * kBlock + c * kLanes;
        if (b < blocks) {
          _mm256_storeu_ps(at, _mm256_add_ps(_mm256_loadu_ps(at), sums[b][tap][c]));
        }
      }
    }
  }
}

// Everything about one convolution that does not depend on the data.
struct BlockedPlan {
  Geometry g;
  bool unit_stride;
  RowOfThree row;
  RowOfAnyStride any_row;
  std::vector<Unit> units;
  // Images are gathered [block][image] before a unit that has several: planes of different images
  // would compete for the same lines of the cache.
  int64_t images_in_unit;
  int threads;

  bool gathers() const { return images_in_unit > 1; }

  int64_t filter_stride() const { return g.x.blocks * g.h.size * g.w.size * kBlock; }
};

// One unit, input block `ib` and output blocks [ob, ob + count).
void AddBlocks(const BlockedPlan& plan, const Geometry& g, const Unit& unit, int64_t ib, int64_t ob,
               int64_t count, const float* x, const float* dy, float* filter) {
  x += ib * g.x.block_stride;
  dy += ob * g.dy.block_stride;
  filter += ob * plan.filter_stride() + ib * g.h.size * g.w.size * kBlock;
  for (int64_t kh = 0; kh < g.h.size; ++kh) {
    float* row = filter + kh * g.w.size * kBlock;
    if (plan.unit_stride) {
      for (int64_t c = 0; c < kLanes; c += kInputs) {
        ThreeTaps(g, plan.row, unit, kh, x + c, dy, row + c * kLanes);
      }
      continue;
    }
    const bool pair = count == 2;
    for (int64_t c = 0; c < kLanes; c += RowOfAnyStride::kChannels) {
      ThreeTapsAnyStride(g, plan.any_row, unit, kh, x + c, dy, pair ? g.dy.block_stride : 0,
                         row + c * kLanes, pair ? plan.filter_stride() : 0);
    }
  }
}

// [image][block][pixels] to [block][image][pixels] for the images of a unit.
void Gather(const ImageView& from, const Unit& unit, int threads, const float* source,
            float* target) {
  const int64_t images = unit.last - unit.first;
  ParallelFor(threads, from.blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      for (int64_t n = 0; n < images; ++n) {
        std::copy_n(source + (unit.first + n) * from.image_stride + block * from.block_stride,
                    from.block_stride, target + (block * images + n) * from.block_stride);
      }
    }
  });
}

ImageView GatheredView(ImageView view, int64_t images) {
  view.image_stride = view.block_stride;
  view.block_stride *= images;
  return view;
}

void RunBlocked(const BlockedPlan& plan, const float* x, const float* dy, float* filter,
                float* scratch) {
  std::fill_n(filter, plan.g.dy.blocks * plan.filter_stride(), 0.0F);
  for (const Unit& unit : plan.units) {
    Geometry g = plan.g;
    Unit local = unit;
    const float* unit_x = x;
    const float* unit_dy = dy;
    if (plan.gathers()) {
      const int64_t images = unit.last - unit.first;
      float* dy_copy = scratch + plan.images_in_unit * g.x.image_stride;
      Gather(g.x, unit, plan.threads, x, scratch);
      Gather(g.dy, unit, plan.threads, dy, dy_copy);
      g.x = GatheredView(g.x, images);
      g.dy = GatheredView(g.dy, images);
      local.first = 0;
      local.last = images;
      unit_x = scratch;
      unit_dy = dy_copy;
    }
    const int64_t step = plan.unit_stride ? 1 : RowOfAnyStride::kBlocks;
    ParallelFor(plan.threads, g.dy.blocks, step, [&](int64_t begin, int64_t end) {
      for (int64_t ib = 0; ib < g.x.blocks; ++ib) {
        for (int64_t ob = begin; ob < end; ob += step) {
          AddBlocks(plan, g, local, ib, ob, std::min(step, end - ob), unit_x, unit_dy, filter);
        }
      }
    });
  }
}

Kernel MakeBlockedKernel(const ConvSpec& spec) {
  const ImageLayout blocked{ImageLayout::Kind::kBlocked, kLanes};
  const Geometry g{ViewImage(spec.x, spec.axes, blocked), ViewImage(spec.y, spec.axes, blocked),
                   spec.windows.h, spec.windows.w};
  BlockedPlan plan{.g = g,
                   .unit_stride = g.w.stride == 1 && g.w.dilation == 1 && g.h.stride == 1,
                   .row = RowOfThree(g),
                   .any_row = RowOfAnyStride(g),
                   .units = MakeUnits(spec.batch(), g.h, g.w, kUnitPixels),
                   .images_in_unit = 0,
                   .threads = spec.threads};
  plan.images_in_unit = plan.units[0].last - plan.units[0].first;
  const std::array<int64_t, 4> strides = {g.w.size * kBlock, kBlock, g.h.size * g.w.size * kBlock,
                                          plan.filter_stride()};
  const std::array<Layout::Block, 2> blocks = {Layout::Block{2, kLanes}, Layout::Block{3, kLanes}};
  Kernel kernel;
  kernel.input_layouts = {ToLayout(spec.x, spec.axes, blocked),
                          ToLayout(spec.y, spec.axes, blocked), Layout()};
  kernel.output_layouts = {Layout::Blocked(spec.filter, spec.filter.dims(), strides, blocks)};
  if (plan.gathers()) {
    kernel.scratch_bytes =
        static_cast<size_t>(plan.images_in_unit * (g.x.image_stride + g.dy.image_stride)) *
        sizeof(float);
  }
  kernel.run = [plan](const KernelArgs& args) {
    RunBlocked(plan, args.in<float>(0), args.in<float>(1), args.out<float>(0),
               static_cast<float*>(args.scratch));
    return OkStatus();
  };
  return kernel;
}

}  // namespace

std::optional<Kernel> MakeAvx2FilterGrad(const ConvSpec& spec, const Layout& x_layout) {
  if (VectorWidth() != kLanes || spec.dtype != DType::kFloat32 || spec.groups != 1 ||
      spec.batch() == 0 || spec.out_channels() % kLanes != 0) {
    return std::nullopt;
  }
  if (spec.in_channels() <= kNarrowChannels) {
    return MakeNarrowFilterGrad(spec, x_layout);
  }
  if (spec.in_channels() % kLanes == 0 && spec.windows.w.size == 3) {
    return MakeBlockedKernel(spec);
  }
  return std::nullopt;
}

}  // namespace lockstep::op::internal
