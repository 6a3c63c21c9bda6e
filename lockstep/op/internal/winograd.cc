#include "lockstep/op/internal/winograd.h"

#include <immintrin.h>

#include <algorithm>
#include <array>

#include "lockstep/op/internal/image_layout.h"
#include "lockstep/op/internal/onednn.h"
#include "lockstep/op/internal/parallel.h"
#include "lockstep/op/internal/winograd_tile.h"

namespace lockstep::op::internal {
namespace {

constexpr int64_t kLanes = kTileLanes;
constexpr int64_t kBlock = kLanes * kLanes;
constexpr int64_t kPanel = 2 * kLanes;  // output channels of a micro-kernel
constexpr int64_t kRows = 6;            // tiles of a micro-kernel
// Bytes of one point of a block of transformed tiles: stays in the second-level cache.
constexpr int64_t kTileBytes = 131072;
// With filters this small, a block is kept so short that all of it stays there.
constexpr int64_t kSmallFilterBytes = 300000;
constexpr int64_t kShortBlock = 5 * kRows;
// Keeps the points of a block from falling on the same lines of the cache.
constexpr int64_t kSkew = 16;

// The convolution that is computed: of x, or of dy with the turned filter.
struct WinogradPlan {
  ImageView in;
  ImageView out;
  int64_t pad_h;
  int64_t pad_w;
  int64_t tiles_h;
  int64_t tiles_w;
  int64_t tiles;  // of all images
  int64_t tiles_in_block;
  int threads;

  int64_t panels() const { return out.channels / kPanel; }

  // Strides between points.
  int64_t filter_stride() const { return in.channels * out.channels; }

  int64_t in_stride() const { return tiles_in_block * in.channels + kSkew; }

  int64_t out_stride() const { return tiles_in_block * out.channels + kSkew; }

  size_t scratch_floats() const {
    return static_cast<size_t>(kTilePoints * (filter_stride() + in_stride() + out_stride()));
  }
};

WinogradPlan MakePlan(const ConvSpec& spec, bool forward) {
  const ImageLayout blocked{ImageLayout::Kind::kBlocked, kLanes};
  const ImageView x = ViewImage(spec.x, spec.axes, blocked);
  const ImageView y = ViewImage(spec.y, spec.axes, blocked);
  WinogradPlan plan{.in = forward ? x : y,
                    .out = forward ? y : x,
                    .pad_h = forward ? spec.windows.h.pad_low : 2 - spec.windows.h.pad_low,
                    .pad_w = forward ? spec.windows.w.pad_low : 2 - spec.windows.w.pad_low,
                    .tiles_h = 0,
                    .tiles_w = 0,
                    .tiles = 0,
                    .tiles_in_block = kShortBlock,
                    .threads = spec.threads};
  plan.tiles_h = (plan.out.h + 1) / 2;
  plan.tiles_w = (plan.out.w + 1) / 2;
  plan.tiles = plan.out.images * plan.tiles_h * plan.tiles_w;
  if (kTilePoints * plan.filter_stride() * 4 > kSmallFilterBytes) {
    plan.tiles_in_block = std::max<int64_t>(kTileBytes / (4 * plan.in.channels) / kRows, 1) * kRows;
  }
  return plan;
}

// One dimension of the filter transform: 3 taps to 4 points.
void FilterPoints(const __m256 (&g)[3], __m256 (&u)[4]) {
  const __m256 half = _mm256_set1_ps(0.5F);
  const __m256 ends = _mm256_mul_ps(_mm256_add_ps(g[0], g[2]), half);
  const __m256 middle = _mm256_mul_ps(g[1], half);
  u[0] = g[0];
  u[1] = _mm256_add_ps(ends, middle);
  u[2] = _mm256_sub_ps(ends, middle);
  u[3] = g[2];
}

// Eight filters at once to their 16 points, `stride` floats apart.
void TransformFilter(const __m256 (&taps)[3][3], float* u, int64_t stride) {
  __m256 rows[4][3];
#pragma GCC unroll 3
  for (int j = 0; j < 3; ++j) {
    const __m256 column[3] = {taps[0][j], taps[1][j], taps[2][j]};
    __m256 points[4];
    FilterPoints(column, points);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      rows[i][j] = points[i];
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    __m256 points[4];
    FilterPoints(rows[i], points);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      _mm256_storeu_ps(u + (i * 4 + j) * stride, points[j]);
    }
  }
}

// In place: rows become columns.
void Transpose(__m256 (&v)[kLanes]) {
  __m256 a[kLanes];
  __m256 b[kLanes];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    a[2 * i] = _mm256_unpacklo_ps(v[2 * i], v[2 * i + 1]);
    a[2 * i + 1] = _mm256_unpackhi_ps(v[2 * i], v[2 * i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    b[4 * i] = _mm256_shuffle_ps(a[4 * i], a[4 * i + 2], 0x44);
    b[4 * i + 1] = _mm256_shuffle_ps(a[4 * i], a[4 * i + 2], 0xEE);
    b[4 * i + 2] = _mm256_shuffle_ps(a[4 * i + 1], a[4 * i + 3], 0x44);
    b[4 * i + 3] = _mm256_shuffle_ps(a[4 * i + 1], a[4 * i + 3], 0xEE);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    v[i] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x20);
    v[i + 4] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x31);
  }
}

// u[point][panel of output channels][input channel][kPanel]; `block` is one [3][3][8 in][8 out].
void TransformForwardBlock(const WinogradPlan& plan, const float* block, int64_t ob, int64_t ib,
                           float* u) {
  float* target = u + (ob / 2 * plan.in.channels + ib * kLanes) * kPanel + ob % 2 * kLanes;
  for (int64_t i = 0; i < kLanes; ++i) {
    __m256 taps[3][3];
#pragma GCC unroll 9
    for (int tap = 0; tap < 9; ++tap) {
      taps[tap / 3][tap % 3] = _mm256_loadu_ps(block + tap * kBlock + i * kLanes);
    }
    TransformFilter(taps, target + i * kPanel, plan.filter_stride());
  }
}

// The same with input and output exchanged and the filter turned by 180 degrees: `ob` and `ib` are
// blocks of the filter, so of what is the input and the output here.
void TransformTurnedBlock(const WinogradPlan& plan, const float* block, int64_t ob, int64_t ib,
                          float* u) {
  __m256 turned[9][kLanes];
  for (int tap = 0; tap < 9; ++tap) {
#pragma GCC unroll 8
    for (int i = 0; i < kLanes; ++i) {
      turned[8 - tap][i] = _mm256_loadu_ps(block + tap * kBlock + i * kLanes);
    }
    Transpose(turned[8 - tap]);
  }
  float* target = u + (ib / 2 * plan.in.channels + ob * kLanes) * kPanel + ib % 2 * kLanes;
  for (int64_t o = 0; o < kLanes; ++o) {
    __m256 taps[3][3];
#pragma GCC unroll 9
    for (int tap = 0; tap < 9; ++tap) {
      taps[tap / 3][tap % 3] = turned[tap][o];
    }
    TransformFilter(taps, target + o * kPanel, plan.filter_stride());
  }
}

void TransformFilters(const WinogradPlan& plan, bool forward, const float* filter, float* u) {
  const int64_t out_blocks = forward ? plan.out.blocks : plan.in.blocks;
  const int64_t in_blocks = forward ? plan.in.blocks : plan.out.blocks;
  ParallelFor(plan.threads, out_blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t ob = begin; ob < end; ++ob) {
      for (int64_t ib = 0; ib < in_blocks; ++ib) {
        const float* block = filter + (ob * in_blocks + ib) * 9 * kBlock;
        if (forward) {
          TransformForwardBlock(plan, block, ob, ib, u);
        } else {
          TransformTurnedBlock(plan, block, ob, ib, u);
        }
      }
    }
  });
}

// v[point][tile][channel] of tiles [first, last).
void TransformInputs(const WinogradPlan& plan, const float* x, int64_t first, int64_t last,
                     float* v) {
  ParallelFor(plan.threads, plan.in.blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      for (int64_t index = first; index < last; ++index) {
        const Tile tile = TileAt(index, plan.tiles_h, plan.tiles_w);
        TransformInput(plan.in,
                       x + tile.image * plan.in.image_stride + block * plan.in.block_stride,
                       2 * tile.h - plan.pad_h, 2 * tile.w - plan.pad_w,
                       v + (index - first) * plan.in.channels + block * kLanes, plan.in_stride());
      }
    }
  });
}

// m[row][kPanel] = sum over k of v[row][k] * u[k][kPanel].
template <int kCount>
void Multiply(const float* v, int64_t v_stride, const float* u, int64_t terms, float* m,
              int64_t m_stride) {
  __m256 sums[kCount][2];
#pragma GCC unroll 6
  for (int r = 0; r < kCount; ++r) {
    sums[r][0] = _mm256_setzero_ps();
    sums[r][1] = _mm256_setzero_ps();
  }
  for (int64_t k = 0; k < terms; ++k) {
    const __m256 first = _mm256_loadu_ps(u);
    const __m256 second = _mm256_loadu_ps(u + kLanes);
#pragma GCC unroll 6
    for (int r = 0; r < kCount; ++r) {
      const __m256 value = _mm256_broadcast_ss(v + r * v_stride + k);
      sums[r][0] = _mm256_fmadd_ps(value, first, sums[r][0]);
      sums[r][1] = _mm256_fmadd_ps(value, second, sums[r][1]);
    }
    u += kPanel;
  }
#pragma GCC unroll 6
  for (int r = 0; r < kCount; ++r) {
    _mm256_storeu_ps(m + r * m_stride, sums[r][0]);
    _mm256_storeu_ps(m + r * m_stride + kLanes, sums[r][1]);
  }
}

// m[point][tile][channel] of `count` tiles.
void MultiplyBlock(const WinogradPlan& plan, int64_t count, const float* v, const float* u,
                   float* m) {
  const int64_t terms = plan.in.channels;
  const int64_t stride = plan.out.channels;
  ParallelFor(plan.threads, kTilePoints * plan.panels(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t point = i / plan.panels();
      const int64_t panel = i % plan.panels();
      const float* left = v + point * plan.in_stride();
      const float* right = u + point * plan.filter_stride() + panel * terms * kPanel;
      float* out = m + point * plan.out_stride() + panel * kPanel;
      int64_t tile = 0;
      for (; tile + kRows <= count; tile += kRows) {
        Multiply<kRows>(left + tile * terms, terms, right, terms, out + tile * stride, stride);
      }
      for (; tile + 2 <= count; tile += 2) {
        Multiply<2>(left + tile * terms, terms, right, terms, out + tile * stride, stride);
      }
      if (tile < count) {
        Multiply<1>(left + tile * terms, terms, right, terms, out + tile * stride, stride);
      }
    }
  });
}

// What is done to the result on the way out.
struct Epilogue {
  const float* bias = nullptr;
  bool relu = false;
};

// One dimension of the output transform: 4 points to 2 pixels.
void OutputPixels(__m256 a, __m256 b, __m256 c, __m256 d, __m256& first, __m256& second) {
  first = _mm256_add_ps(a, _mm256_add_ps(b, c));
  second = _mm256_sub_ps(_mm256_sub_ps(b, c), d);
}

void TransformOutput(const ImageView& out, const float* m, int64_t stride, int64_t h, int64_t w,
                     __m256 bias, bool relu, float* plane) {
  __m256 rows[2][4];
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    OutputPixels(_mm256_loadu_ps(m + j * stride), _mm256_loadu_ps(m + (4 + j) * stride),
                 _mm256_loadu_ps(m + (8 + j) * stride), _mm256_loadu_ps(m + (12 + j) * stride),
                 rows[0][j], rows[1][j]);
  }
  const bool wide = w + 1 < out.w;
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    __m256 first;
    __m256 second;
    OutputPixels(rows[i][0], rows[i][1], rows[i][2], rows[i][3], first, second);
    first = _mm256_add_ps(first, bias);
    second = _mm256_add_ps(second, bias);
    if (relu) {
      first = _mm256_max_ps(first, _mm256_setzero_ps());
      second = _mm256_max_ps(second, _mm256_setzero_ps());
    }
    if (h + i < out.h) {
      float* pixel = plane + (h + i) * out.row_stride + w * kLanes;
      _mm256_storeu_ps(pixel, first);
      if (wide) {
        _mm256_storeu_ps(pixel + kLanes, second);
      }
    }
  }
}

void TransformOutputs(const WinogradPlan& plan, const float* m, int64_t first, int64_t last,
                      const Epilogue& epilogue, float* y) {
  ParallelFor(plan.threads, plan.out.blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const __m256 bias = epilogue.bias == nullptr
                              ? _mm256_setzero_ps()
                              : _mm256_loadu_ps(epilogue.bias + block * kLanes);
      for (int64_t index = first; index < last; ++index) {
        const Tile tile = TileAt(index, plan.tiles_h, plan.tiles_w);
        TransformOutput(plan.out, m + (index - first) * plan.out.channels + block * kLanes,
                        plan.out_stride(), 2 * tile.h, 2 * tile.w, bias, epilogue.relu,
                        y + tile.image * plan.out.image_stride + block * plan.out.block_stride);
      }
    }
  });
}

void RunWinograd(const WinogradPlan& plan, bool forward, const float* x, const float* filter,
                 const Epilogue& epilogue, float* y, float* scratch) {
  float* u = scratch;
  float* v = u + kTilePoints * plan.filter_stride();
  float* m = v + kTilePoints * plan.in_stride();
  TransformFilters(plan, forward, filter, u);
  for (int64_t first = 0; first < plan.tiles; first += plan.tiles_in_block) {
    const int64_t last = std::min(plan.tiles, first + plan.tiles_in_block);
    TransformInputs(plan, x, first, last, v);
    MultiplyBlock(plan, last - first, v, u, m);
    TransformOutputs(plan, m, first, last, epilogue, y);
  }
}

}  // namespace

Layout WinogradFilterLayout(const ConvSpec& spec) {
  const std::array<int64_t, 4> strides = {3 * kBlock, kBlock, 9 * kBlock,
                                          spec.in_channels() / kLanes * 9 * kBlock};
  const std::array<Layout::Block, 2> blocks = {Layout::Block{2, kLanes}, Layout::Block{3, kLanes}};
  return Layout::Blocked(spec.filter, spec.filter.dims(), strides, blocks);
}

bool WinogradSuits(const ConvSpec& spec) {
  // Below this the transforms cost more than the products that they save.
  constexpr int64_t kFewestChannels = 32;
  constexpr int64_t kFewestTiles = 64;
  const auto plain_window = [](const Window& window) {
    return window.size == 3 && window.stride == 1 && window.dilation == 1 && window.pad_low <= 2;
  };
  const auto suits = [](int64_t channels) {
    return channels % kPanel == 0 && channels >= kFewestChannels;
  };
  return VectorWidth() == kLanes && spec.dtype == DType::kFloat32 && spec.groups == 1 &&
         plain_window(spec.windows.h) && plain_window(spec.windows.w) &&
         suits(spec.in_channels()) && suits(spec.out_channels()) &&
         spec.batch() * spec.windows.h.output * spec.windows.w.output >= 4 * kFewestTiles;
}

Kernel MakeWinogradForward(const ConvSpec& spec, bool bias, bool relu) {
  const WinogradPlan plan = MakePlan(spec, true);
  const ImageLayout blocked{ImageLayout::Kind::kBlocked, kLanes};
  Kernel kernel;
  kernel.input_layouts = {ToLayout(spec.x, spec.axes, blocked), WinogradFilterLayout(spec)};
  kernel.input_layouts.resize(bias ? 3 : 2);
  kernel.output_layouts = {ToLayout(spec.y, spec.axes, blocked)};
  kernel.scratch_bytes = plan.scratch_floats() * sizeof(float);
  kernel.run = [plan, bias, relu](const KernelArgs& args) {
    RunWinograd(plan, true, args.in<float>(0), args.in<float>(1),
                {bias ? args.in<float>(2) : nullptr, relu}, args.out<float>(0),
                static_cast<float*>(args.scratch));
    return OkStatus();
  };
  return kernel;
}

Kernel MakeWinogradBackwardInput(const ConvSpec& spec) {
  const WinogradPlan plan = MakePlan(spec, false);
  const ImageLayout blocked{ImageLayout::Kind::kBlocked, kLanes};
  Kernel kernel;
  kernel.input_layouts = {ToLayout(spec.y, spec.axes, blocked), WinogradFilterLayout(spec),
                          Layout()};
  kernel.output_layouts = {ToLayout(spec.x, spec.axes, blocked)};
  kernel.scratch_bytes = plan.scratch_floats() * sizeof(float);
  kernel.run = [plan](const KernelArgs& args) {
    RunWinograd(plan, false, args.in<float>(0), args.in<float>(1), {}, args.out<float>(0),
                static_cast<float*>(args.scratch));
    return OkStatus();
  };
  return kernel;
}

}  // namespace lockstep::op::internal
