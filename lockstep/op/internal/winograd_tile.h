// What the kernels of Winograd's algorithm share: 4x4 tiles of the input, which overlap by two
// pixels, eight channels at a time.
#pragma once

#include <immintrin.h>

#include "lockstep/op/internal/image_layout.h"

namespace lockstep::op::internal {

inline constexpr int64_t kTileLanes = 8;
inline constexpr int64_t kTilePoints = 16;

struct Tile {
  int64_t image;
  int64_t h;
  int64_t w;
};

inline Tile TileAt(int64_t index, int64_t tiles_h, int64_t tiles_w) {
  const int64_t per_image = tiles_h * tiles_w;
  return {index / per_image, index % per_image / tiles_w, index % tiles_w};
}

// One dimension of the input transform: 4 pixels to 4 points.
inline void InputPoints(__m256 a, __m256 b, __m256 c, __m256 d, __m256 (&v)[4]) {
  v[0] = _mm256_sub_ps(a, c);
  v[1] = _mm256_add_ps(b, c);
  v[2] = _mm256_sub_ps(c, b);
  v[3] = _mm256_sub_ps(b, d);
}

// `plane` is a block of channels of an image; (h, w) the first pixel, perhaps outside.
inline void TransformInput(const ImageView& in, const float* plane, int64_t h, int64_t w, float* v,
                           int64_t stride) {
  __m256 pixels[4][4];
  if (h >= 0 && w >= 0 && h + 4 <= in.h && w + 4 <= in.w) {
    const float* first = plane + h * in.row_stride + w * kTileLanes;
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        pixels[i][j] = _mm256_loadu_ps(first + i * in.row_stride + j * kTileLanes);
      }
    }
  } else {
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < 4; ++j) {
        const bool inside = h + i >= 0 && h + i < in.h && w + j >= 0 && w + j < in.w;
        pixels[i][j] = inside
                           ? _mm256_loadu_ps(plane + (h + i) * in.row_stride + (w + j) * kTileLanes)
                           : _mm256_setzero_ps();
      }
    }
  }
  __m256 rows[4][4];
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    __m256 points[4];
    InputPoints(pixels[0][j], pixels[1][j], pixels[2][j], pixels[3][j], points);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      rows[i][j] = points[i];
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    __m256 points[4];
    InputPoints(rows[i][0], rows[i][1], rows[i][2], rows[i][3], points);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      _mm256_storeu_ps(v + (i * 4 + j) * stride, points[j]);
    }
  }
}

}  // namespace lockstep::op::internal
