#include "lockstep/op/internal/pool_kernel.h"

#include <fmt/format.h>
#include <immintrin.h>

#include <algorithm>
#include <memory>

#include "lockstep/op/internal/element.h"
#include "lockstep/op/internal/parallel.h"

namespace lockstep::op::internal {
namespace {

constexpr int64_t kLanes = 8;

// The taps of one output position that lie inside the input, along one dimension.
struct TapRange {
  int64_t origin;  // input position of tap 0, may be negative
  int64_t begin;
  int64_t end;
};

std::vector<TapRange> MakeTapRanges(const Window& window) {
  std::vector<TapRange> ranges;
  for (int64_t o = 0; o < window.output; ++o) {
    const int64_t origin = o * window.stride - window.pad_low;
    ranges.push_back(
        {origin, std::max<int64_t>(0, -origin), std::min(window.size, window.input - origin)});
  }
  return ranges;
}

struct Plan {
  ImageView x;
  ImageView y;
  std::vector<TapRange> h;
  std::vector<TapRange> w;
  int64_t size_h;
  int64_t size_w;
  bool count_include_pad;
  int threads;

  int64_t TapCount(const TapRange& th, const TapRange& tw) const {
    return count_include_pad ? size_h * size_w : (th.end - th.begin) * (tw.end - tw.begin);
  }
};

std::shared_ptr<const Plan> MakePlan(const PoolSpec& spec, const ImageLayout& layout) {
  return std::make_shared<const Plan>(Plan{.x = ViewImage(spec.x, spec.axes, layout),
                                           .y = ViewImage(spec.y, spec.axes, layout),
                                           .h = MakeTapRanges(spec.windows.h),
                                           .w = MakeTapRanges(spec.windows.w),
                                           .size_h = spec.windows.h.size,
                                           .size_w = spec.windows.w.size,
                                           .count_include_pad = spec.count_include_pad,
                                           .threads = spec.threads});
}

// Calls body(x offset of the origin, y offset, h taps, w taps) for each output pixel of a plane.
template <class Body>
void ForEachPixel(const Plan& plan, int64_t plane, const Body& body) {
  const int64_t x = plan.x.PlaneOffset(plane);
  int64_t y = plan.y.PlaneOffset(plane);
  for (const TapRange& h : plan.h) {
    for (const TapRange& w : plan.w) {
      body(x + h.origin * plan.x.row_stride + w.origin * plan.x.pixel_stride, y, h, w);
      y += plan.y.pixel_stride;
    }
  }
}

// Calls body(offset within a pixel, number of lanes) for whole vectors with a constant number, then
// for the rest.
template <class Body>
void ForEachLaneGroup(int64_t lanes, const Body& body) {
  int64_t lane = 0;
  for (; lane + kLanes <= lanes; lane += kLanes) {
    body(lane, std::integral_constant<int64_t, kLanes>());
  }
  if (lane < lanes) {
    body(lane, lanes - lane);
  }
}

// The largest elements of one window, and their taps, for a group of `count` lanes.
template <class T, class Count>
void MaxOfWindow(const Plan& plan, const T* x, const TapRange& h, const TapRange& w, Count count,
                 T* y, uint8_t* taps) {
  float best[kLanes];
  int32_t tap[kLanes];
  const T* first = x + h.begin * plan.x.row_stride + w.begin * plan.x.pixel_stride;
  for (int64_t l = 0; l < count; ++l) {
    best[l] = LoadFloat(first[l]);
    tap[l] = static_cast<int32_t>(h.begin * plan.size_w + w.begin);
  }
  for (int64_t i = h.begin; i < h.end; ++i) {
    for (int64_t j = w.begin; j < w.end; ++j) {
      const T* pixel = x + i * plan.x.row_stride + j * plan.x.pixel_stride;
      const auto number = static_cast<int32_t>(i * plan.size_w + j);
      for (int64_t l = 0; l < count; ++l) {
        const float value = LoadFloat(pixel[l]);
        const bool greater = value > best[l];
        tap[l] = greater ? number : tap[l];
        best[l] = greater ? value : best[l];
      }
    }
  }
  for (int64_t l = 0; l < count; ++l) {
    StoreFloat(y[l], best[l]);
    taps[l] = static_cast<uint8_t>(tap[l]);
  }
}

// The same for a whole vector, which compilers do not find by themselves.
void MaxOfWindow(const Plan& plan, const float* x, const TapRange& h, const TapRange& w,
                 std::integral_constant<int64_t, kLanes>, float* y, uint8_t* taps) {
  const float* first = x + h.begin * plan.x.row_stride + w.begin * plan.x.pixel_stride;
  __m256 best = _mm256_loadu_ps(first);
  __m256i tap = _mm256_set1_epi32(static_cast<int>(h.begin * plan.size_w + w.begin));
  for (int64_t i = h.begin; i < h.end; ++i) {
    const float* pixel = x + i * plan.x.row_stride + w.begin * plan.x.pixel_stride;
    __m256i number = _mm256_set1_epi32(static_cast<int>(i * plan.size_w + w.begin));
    for (int64_t j = w.begin; j < w.end; ++j) {
      const __m256 value = _mm256_loadu_ps(pixel);
      const __m256 greater = _mm256_cmp_ps(value, best, _CMP_GT_OQ);
      best = _mm256_blendv_ps(best, value, greater);
      tap = _mm256_blendv_epi8(tap, number, _mm256_castps_si256(greater));
      number = _mm256_add_epi32(number, _mm256_set1_epi32(1));
      pixel += plan.x.pixel_stride;
    }
  }
  _mm256_storeu_ps(y, best);
  const __m128i words =
      _mm_packus_epi32(_mm256_castsi256_si128(tap), _mm256_extracti128_si256(tap, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(taps), _mm_packus_epi16(words, words));
}

template <class T>
void MaxPoolPlane(const Plan& plan, int64_t plane, const T* x, T* y, uint8_t* taps) {
  ForEachPixel(plan, plane, [&](int64_t in, int64_t out, const TapRange& h, const TapRange& w) {
    ForEachLaneGroup(plan.y.lanes, [&](int64_t lane, auto count) {
      MaxOfWindow(plan, x + in + lane, h, w, count, y + out + lane, taps + out + lane);
    });
  });
}

// Gives each element of dy to the element of dx that its tap names. With kOnce windows cover the
// input without overlap, and dx is written instead of added to.
template <bool kOnce, class T, class Count>
void SpreadWindow(const Plan& plan, const T* dy, const uint8_t* taps, const TapRange& h,
                  const TapRange& w, Count count, T* dx) {
  float grad[kLanes];
  int32_t tap[kLanes];
  for (int64_t l = 0; l < count; ++l) {
    grad[l] = LoadFloat(dy[l]);
    tap[l] = taps[l];
  }
  for (int64_t i = h.begin; i < h.end; ++i) {
    for (int64_t j = w.begin; j < w.end; ++j) {
      T* pixel = dx + i * plan.x.row_stride + j * plan.x.pixel_stride;
      const auto number = static_cast<int32_t>(i * plan.size_w + j);
      for (int64_t l = 0; l < count; ++l) {
        const float value = tap[l] == number ? grad[l] : 0.0F;
        StoreFloat(pixel[l], kOnce ? value : LoadFloat(pixel[l]) + value);
      }
    }
  }
}

template <bool kOnce>
void SpreadWindow(const Plan& plan, const float* dy, const uint8_t* taps, const TapRange& h,
                  const TapRange& w, std::integral_constant<int64_t, kLanes>, float* dx) {
  const __m256 grad = _mm256_loadu_ps(dy);
  const __m256i tap = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(taps)));
  for (int64_t i = h.begin; i < h.end; ++i) {
    float* pixel = dx + i * plan.x.row_stride + w.begin * plan.x.pixel_stride;
    __m256i number = _mm256_set1_epi32(static_cast<int>(i * plan.size_w + w.begin));
    for (int64_t j = w.begin; j < w.end; ++j) {
      const __m256 chosen = _mm256_castsi256_ps(_mm256_cmpeq_epi32(tap, number));
      const __m256 value = _mm256_and_ps(grad, chosen);
      _mm256_storeu_ps(pixel, kOnce ? value : _mm256_add_ps(_mm256_loadu_ps(pixel), value));
      number = _mm256_add_epi32(number, _mm256_set1_epi32(1));
      pixel += plan.x.pixel_stride;
    }
  }
}

template <bool kOnce, class T>
void MaxPoolGradPlane(const Plan& plan, int64_t plane, const T* dy, const uint8_t* taps, T* dx) {
  ForEachPixel(plan, plane, [&](int64_t in, int64_t out, const TapRange& h, const TapRange& w) {
    ForEachLaneGroup(plan.y.lanes, [&](int64_t lane, auto count) {
      SpreadWindow<kOnce>(plan, dy + out + lane, taps + out + lane, h, w, count, dx + in + lane);
    });
  });
}

// Taps are data like any other, so they are checked; one outside the input picks zero.
template <class T>
void MaxPoolPickPlane(const Plan& plan, int64_t plane, const T* dx, const uint8_t* taps, T* dy) {
  ForEachPixel(plan, plane, [&](int64_t in, int64_t out, const TapRange& h, const TapRange& w) {
    for (int64_t l = 0; l < plan.y.lanes; ++l) {
      const int64_t i = taps[out + l] / plan.size_w;
      const int64_t j = taps[out + l] % plan.size_w;
      const bool inside = i >= h.begin && i < h.end && j >= w.begin && j < w.end;
      dy[out + l] = inside ? dx[in + i * plan.x.row_stride + j * plan.x.pixel_stride + l] : T();
    }
  });
}

template <class T>
void AvgPoolPlane(const Plan& plan, int64_t plane, const T* x, T* y) {
  ForEachPixel(plan, plane, [&](int64_t in, int64_t out, const TapRange& h, const TapRange& w) {
    const float scale = 1.0F / static_cast<float>(plan.TapCount(h, w));
    ForEachLaneGroup(plan.y.lanes, [&](int64_t lane, auto count) {
      float sum[kLanes] = {};
      for (int64_t i = h.begin; i < h.end; ++i) {
        const T* row = x + in + lane + i * plan.x.row_stride;
        for (int64_t j = w.begin; j < w.end; ++j) {
          for (int64_t l = 0; l < count; ++l) {
            sum[l] += LoadFloat(row[j * plan.x.pixel_stride + l]);
          }
        }
      }
      for (int64_t l = 0; l < count; ++l) {
        StoreFloat(y[out + lane + l], sum[l] * scale);
      }
    });
  });
}

template <class T>
void AvgPoolGradPlane(const Plan& plan, int64_t plane, const T* dy, T* dx) {
  ForEachPixel(plan, plane, [&](int64_t in, int64_t out, const TapRange& h, const TapRange& w) {
    const float scale = 1.0F / static_cast<float>(plan.TapCount(h, w));
    ForEachLaneGroup(plan.y.lanes, [&](int64_t lane, auto count) {
      float grad[kLanes];
      for (int64_t l = 0; l < count; ++l) {
        grad[l] = LoadFloat(dy[out + lane + l]) * scale;
      }
      for (int64_t i = h.begin; i < h.end; ++i) {
        T* row = dx + in + lane + i * plan.x.row_stride;
        for (int64_t j = w.begin; j < w.end; ++j) {
          T* pixel = row + j * plan.x.pixel_stride;
          for (int64_t l = 0; l < count; ++l) {
            StoreFloat(pixel[l], LoadFloat(pixel[l]) + grad[l]);
          }
        }
      }
    });
  });
}

template <class Body>
void ForEachPlane(const Plan& plan, const Body& body) {
  ParallelFor(plan.threads, plan.x.planes(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      body(plane);
    }
  });
}

template <class T>
void ClearPlane(const Plan& plan, int64_t plane, T* dx) {
  std::fill_n(dx + plan.x.PlaneOffset(plane), plan.x.block_stride, T());
}

// Every input lies in exactly one window.
bool Tiles(const Window& window) {
  return window.stride == window.size && window.input == window.output * window.size;
}

}  // namespace

Result<PoolSpec> ResolvePool(const AttrMap& attrs, const Shape& x) {
  PoolSpec spec;
  LS_ASSIGN_OR_RETURN(spec.axes, ParseDataFormat(attrs));
  if (x.rank() != 4) {
    return InvalidArgument(fmt::format("pooling of {}, expected rank 4", x.ToString()));
  }
  const std::vector<int64_t>& ksize = attrs.GetInts("ksize");
  if (ksize.size() != 2) {
    return InvalidArgument(
        fmt::format("ksize is {}, expected [height, width]", AttrToString(*attrs.Find("ksize"))));
  }
  LS_ASSIGN_OR_RETURN(spec.windows,
                      ResolveWindows(attrs, x[spec.axes.h], x[spec.axes.w], ksize[0], ksize[1]));
  for (const Window* window : {&spec.windows.h, &spec.windows.w}) {
    if (std::max(window->pad_low, window->pad_high) >= window->size) {
      return InvalidArgument(fmt::format("a padding of {} for a window of {}: it must be smaller",
                                         std::max(window->pad_low, window->pad_high),
                                         window->size));
    }
  }
  spec.x = x;
  spec.y = MakeImageShape(spec.axes, x[spec.axes.n], x[spec.axes.c], spec.windows.h.output,
                          spec.windows.w.output);
  return spec;
}

std::vector<AttrDef> PoolAttrs(const std::vector<AttrDef>& more) {
  std::vector<AttrDef> attrs = WindowAttrs({{"ksize", AttrType::kInts}});
  attrs.insert(attrs.end(), more.begin(), more.end());
  return attrs;
}

Result<Kernel> MakeMaxPool(const PoolSpec& spec, const Layout& layout) {
  return DispatchElement(spec.dtype, "MaxPool", [&](auto element) -> Result<Kernel> {
    using T = decltype(element);
    const ImageLayout image = ClassifyOrPlain(spec.x, spec.axes, layout);
    const Layout out = ToLayout(spec.y, spec.axes, image);
    Kernel kernel;
    kernel.input_layouts = {ToLayout(spec.x, spec.axes, image)};
    kernel.output_layouts = {out, out};
    kernel.run = [plan = MakePlan(spec, image)](const KernelArgs& args) {
      ForEachPlane(*plan, [&](int64_t plane) {
        MaxPoolPlane(*plan, plane, args.in<T>(0), args.out<T>(0), args.out<uint8_t>(1));
      });
      return OkStatus();
    };
    return kernel;
  });
}

Result<Kernel> MakeMaxPoolGrad(const PoolSpec& spec, const Layout& layout) {
  return DispatchElement(spec.dtype, "MaxPoolGrad", [&](auto element) -> Result<Kernel> {
    using T = decltype(element);
    const ImageLayout image = ClassifyOrPlain(spec.y, spec.axes, layout);
    const Layout in = ToLayout(spec.y, spec.axes, image);
    Kernel kernel;
    kernel.input_layouts = {in, Layout(), in};
    kernel.output_layouts = {ToLayout(spec.x, spec.axes, image)};
    kernel.run = [plan = MakePlan(spec, image),
                  tiles = Tiles(spec.windows.h) && Tiles(spec.windows.w)](const KernelArgs& args) {
      ForEachPlane(*plan, [&](int64_t plane) {
        const T* dy = args.in<T>(0);
        const auto* taps = args.in<uint8_t>(2);
        if (tiles) {
          MaxPoolGradPlane<true>(*plan, plane, dy, taps, args.out<T>(0));
        } else {
          ClearPlane(*plan, plane, args.out<T>(0));
          MaxPoolGradPlane<false>(*plan, plane, dy, taps, args.out<T>(0));
        }
      });
      return OkStatus();
    };
    return kernel;
  });
}

Result<Kernel> MakeMaxPoolPick(const PoolSpec& spec, const Layout& layout) {
  return DispatchElement(spec.dtype, "MaxPoolPick", [&](auto element) -> Result<Kernel> {
    using T = decltype(element);
    const ImageLayout image = ClassifyOrPlain(spec.y, spec.axes, layout);
    const Layout out = ToLayout(spec.y, spec.axes, image);
    Kernel kernel;
    kernel.input_layouts = {ToLayout(spec.x, spec.axes, image), out};
    kernel.output_layouts = {out};
    kernel.run = [plan = MakePlan(spec, image)](const KernelArgs& args) {
      ForEachPlane(*plan, [&](int64_t plane) {
        MaxPoolPickPlane(*plan, plane, args.in<T>(0), args.in<uint8_t>(1), args.out<T>(0));
      });
      return OkStatus();
    };
    return kernel;
  });
}

Result<Kernel> MakeAvgPool(const PoolSpec& spec, const Layout& layout) {
  return DispatchElement(spec.dtype, "AvgPool", [&](auto element) -> Result<Kernel> {
    using T = decltype(element);
    const ImageLayout image = ClassifyOrPlain(spec.x, spec.axes, layout);
    Kernel kernel;
    kernel.input_layouts = {ToLayout(spec.x, spec.axes, image)};
    kernel.output_layouts = {ToLayout(spec.y, spec.axes, image)};
    kernel.run = [plan = MakePlan(spec, image)](const KernelArgs& args) {
      ForEachPlane(
          *plan, [&](int64_t plane) { AvgPoolPlane(*plan, plane, args.in<T>(0), args.out<T>(0)); });
      return OkStatus();
    };
    return kernel;
  });
}

Result<Kernel> MakeAvgPoolGrad(const PoolSpec& spec, const Layout& layout) {
  return DispatchElement(spec.dtype, "AvgPoolGrad", [&](auto element) -> Result<Kernel> {
    using T = decltype(element);
    const ImageLayout image = ClassifyOrPlain(spec.y, spec.axes, layout);
    Kernel kernel;
    kernel.input_layouts = {ToLayout(spec.y, spec.axes, image), Layout()};
    kernel.output_layouts = {ToLayout(spec.x, spec.axes, image)};
    kernel.run = [plan = MakePlan(spec, image)](const KernelArgs& args) {
      ForEachPlane(*plan, [&](int64_t plane) {
        ClearPlane(*plan, plane, args.out<T>(0));
        AvgPoolGradPlane(*plan, plane, args.in<T>(0), args.out<T>(0));
      });
      return OkStatus();
    };
    return kernel;
  });
}

}  // namespace lockstep::op::internal
