// The filter gradient by Winograd's algorithm F(3x3, 2x2): with 4x4 tiles of x and 2x2 tiles of dy,
//
//   dfilter = A^T [ sum over tiles of (G dy G^T) * (B^T x B) ] A
//
// so for each of the 16 points a matrix product over tiles between input and output channels.
#include <immintrin.h>

#include <algorithm>
#include <array>

#include "lockstep/op/internal/image_layout.h"
#include "lockstep/op/internal/parallel.h"
#include "lockstep/op/internal/winograd.h"
#include "lockstep/op/internal/winograd_tile.h"

namespace lockstep::op::internal {
namespace {

constexpr int64_t kLanes = kTileLanes;
constexpr int64_t kBlock = kLanes * kLanes;
// Tiles of a block: one block of channels of them stays in the first-level cache.
constexpr int64_t kTiles = 96;
// A micro-kernel: kInputs input channels times up to kOutputs blocks of output channels.
constexpr int kInputs = 4;
constexpr int kOutputs = 3;

struct GradPlan {
  ImageView x;
  ImageView dy;
  int64_t pad_h;
  int64_t pad_w;
  int64_t tiles_h;
  int64_t tiles_w;
  int64_t tiles;
  int threads;

  // Strides between points.
  int64_t x_stride() const { return x.channels * kTiles; }

  int64_t dy_stride() const { return dy.channels * kTiles; }

  int64_t sum_stride() const { return x.channels * dy.channels; }

  size_t scratch_floats() const {
    return static_cast<size_t>(kTilePoints * (x_stride() + dy_stride() + sum_stride()));
  }
};

// v[point][block][tile][lane] of tiles [first, last).
void TransformX(const GradPlan& plan, const float* x, int64_t first, int64_t last, float* v) {
  ParallelFor(plan.threads, plan.x.blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      for (int64_t index = first; index < last; ++index) {
        const Tile tile = TileAt(index, plan.tiles_h, plan.tiles_w);
        TransformInput(plan.x, x + tile.image * plan.x.image_stride + block * plan.x.block_stride,
                       2 * tile.h - plan.pad_h, 2 * tile.w - plan.pad_w,
                       v + (block * kTiles + index - first) * kLanes, plan.x_stride());
      }
    }
  });
}

// One dimension of the transform of dy: 2 pixels to 4 points.
void GradientPoints(__m256 a, __m256 b, __m256 (&points)[4]) {
  const __m256 half = _mm256_set1_ps(0.5F);
  points[0] = a;
  points[1] = _mm256_mul_ps(_mm256_add_ps(a, b), half);
  points[2] = _mm256_mul_ps(_mm256_sub_ps(a, b), half);
  points[3] = b;
}

void TransformGradient(const ImageView& dy, const float* plane, int64_t h, int64_t w, float* v,
                       int64_t stride) {
  __m256 pixels[2][2];
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      pixels[i][j] = h + i < dy.h && w + j < dy.w
                         ? _mm256_loadu_ps(plane + (h + i) * dy.row_stride + (w + j) * kLanes)
                         : _mm256_setzero_ps();
    }
  }
  __m256 columns[2][4];
  GradientPoints(pixels[0][0], pixels[1][0], columns[0]);
  GradientPoints(pixels[0][1], pixels[1][1], columns[1]);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    __m256 points[4];
    GradientPoints(columns[0][i], columns[1][i], points);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      _mm256_storeu_ps(v + (i * 4 + j) * stride, points[j]);
    }
  }
}

void TransformDy(const GradPlan& plan, const float* dy, int64_t first, int64_t last, float* v) {
  ParallelFor(plan.threads, plan.dy.blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      for (int64_t index = first; index < last; ++index) {
        const Tile tile = TileAt(index, plan.tiles_h, plan.tiles_w);
        TransformGradient(plan.dy,
                          dy + tile.image * plan.dy.image_stride + block * plan.dy.block_stride,
                          2 * tile.h, 2 * tile.w, v + (block * kTiles + index - first) * kLanes,
                          plan.dy_stride());
      }
    }
  });
}

// sums[block of output channels][kInputs][lane] += products over `tiles` tiles.
template <int kCount>
void AddProducts(int64_t tiles, const float* x, const float* dy, float* sums, int64_t sum_stride) {
  __m256 total[kCount][kInputs];
#pragma GCC unroll 3
  for (int b = 0; b < kCount; ++b) {
#pragma GCC unroll 4
    for (int c = 0; c < kInputs; ++c) {
      total[b][c] = _mm256_loadu_ps(sums + b * sum_stride + c * kLanes);
    }
  }
  for (int64_t t = 0; t < tiles; ++t) {
    __m256 right[kCount];
#pragma GCC unroll 3
    for (int b = 0; b < kCount; ++b) {
      right[b] = _mm256_loadu_ps(dy + (b * kTiles + t) * kLanes);
    }
#pragma GCC unroll 4
    for (int c = 0; c < kInputs; ++c) {
      const __m256 left = _mm256_broadcast_ss(x + t * kLanes + c);
#pragma GCC unroll 3
      for (int b = 0; b < kCount; ++b) {
        total[b][c] = _mm256_fmadd_ps(left, right[b], total[b][c]);
      }
    }
  }
#pragma GCC unroll 3
  for (int b = 0; b < kCount; ++b) {
#pragma GCC unroll 4
    for (int c = 0; c < kInputs; ++c) {
      _mm256_storeu_ps(sums + b * sum_stride + c * kLanes, total[b][c]);
    }
  }
}

// sums[point][block of output channels][block of input channels][8 in][8 out].
void AddPoint(const GradPlan& plan, int64_t tiles, const float* x, const float* dy, float* sums) {
  const int64_t stride = plan.x.channels * kLanes;
  for (int64_t ob = 0; ob < plan.dy.blocks; ob += kOutputs) {
    const int64_t count = std::min<int64_t>(kOutputs, plan.dy.blocks - ob);
    const float* right = dy + ob * kTiles * kLanes;
    for (int64_t c = 0; c < plan.x.channels; c += kInputs) {
      const float* left = x + c / kLanes * kTiles * kLanes + c % kLanes;
      float* target = sums + ob * stride + c * kLanes;
      switch (count) {
        case 3:
          AddProducts<3>(tiles, left, right, target, stride);
          break;
        case 2:
          AddProducts<2>(tiles, left, right, target, stride);
          break;
        default:
          AddProducts<1>(tiles, left, right, target, stride);
          break;
      }
    }
  }
}

// One dimension of the last transform: 4 points to 3 taps.
void FilterTaps(__m256 a, __m256 b, __m256 c, __m256 d, __m256 (&taps)[3]) {
  const __m256 sum = _mm256_add_ps(b, c);
  taps[0] = _mm256_add_ps(a, sum);
  taps[1] = _mm256_sub_ps(b, c);
  taps[2] = _mm256_sub_ps(sum, d);
}

// filter[block of output channels][block of input channels][3][3][8 in][8 out].
void TransformSums(const GradPlan& plan, const float* sums, float* filter) {
  const int64_t vectors = plan.sum_stride() / kLanes;
  ParallelFor(plan.threads, vectors, kLanes, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float* first = sums + i * kLanes;
      __m256 rows[3][4];
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        const int64_t stride = plan.sum_stride();
        __m256 taps[3];
        FilterTaps(_mm256_loadu_ps(first + j * stride), _mm256_loadu_ps(first + (4 + j) * stride),
                   _mm256_loadu_ps(first + (8 + j) * stride),
                   _mm256_loadu_ps(first + (12 + j) * stride), taps);
        rows[0][j] = taps[0];
        rows[1][j] = taps[1];
        rows[2][j] = taps[2];
      }
      float* target = filter + i / kLanes * 9 * kBlock + i % kLanes * kLanes;
#pragma GCC unroll 3
      for (int h = 0; h < 3; ++h) {
        __m256 taps[3];
        FilterTaps(rows[h][0], rows[h][1], rows[h][2], rows[h][3], taps);
#pragma GCC unroll 3
        for (int w = 0; w < 3; ++w) {
          _mm256_storeu_ps(target + (h * 3 + w) * kBlock, taps[w]);
        }
      }
    }
  });
}

void RunGrad(const GradPlan& plan, const float* x, const float* dy, float* filter, float* scratch) {
  float* sums = scratch;
  float* v = sums + kTilePoints * plan.sum_stride();
  float* g = v + kTilePoints * plan.x_stride();
  std::fill_n(sums, kTilePoints * plan.sum_stride(), 0.0F);
  for (int64_t first = 0; first < plan.tiles; first += kTiles) {
    const int64_t last = std::min(plan.tiles, first + kTiles);
    TransformX(plan, x, first, last, v);
    TransformDy(plan, dy, first, last, g);
    ParallelFor(plan.threads, kTilePoints, 1, [&](int64_t begin, int64_t end) {
      for (int64_t point = begin; point < end; ++point) {
        AddPoint(plan, last - first, v + point * plan.x_stride(), g + point * plan.dy_stride(),
                 sums + point * plan.sum_stride());
      }
    });
  }
  TransformSums(plan, sums, filter);
}

}  // namespace

Kernel MakeWinogradBackwardFilter(const ConvSpec& spec) {
  const ImageLayout blocked{ImageLayout::Kind::kBlocked, kLanes};
  GradPlan plan{.x = ViewImage(spec.x, spec.axes, blocked),
                .dy = ViewImage(spec.y, spec.axes, blocked),
                .pad_h = spec.windows.h.pad_low,
                .pad_w = spec.windows.w.pad_low,
                .tiles_h = (spec.windows.h.output + 1) / 2,
                .tiles_w = (spec.windows.w.output + 1) / 2,
                .tiles = 0,
                .threads = spec.threads};
  plan.tiles = spec.batch() * plan.tiles_h * plan.tiles_w;
  Kernel kernel;
  kernel.input_layouts = {ToLayout(spec.x, spec.axes, blocked),
                          ToLayout(spec.y, spec.axes, blocked), Layout()};
  kernel.output_layouts = {WinogradFilterLayout(spec)};
  kernel.scratch_bytes = plan.scratch_floats() * sizeof(float);
  kernel.run = [plan](const KernelArgs& args) {
    RunGrad(plan, args.in<float>(0), args.in<float>(1), args.out<float>(0),
            static_cast<float*>(args.scratch));
    return OkStatus();
  };
  return kernel;
}

}  // namespace lockstep::op::internal
