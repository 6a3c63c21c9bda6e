#include "lockstep/op/internal/batch_norm_kernel.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "lockstep/op/internal/element.h"
#include "lockstep/op/internal/parallel.h"

namespace lockstep::op::internal {
namespace {

// Channels are worked on in groups of one vector; a group reads all pixels of all images.
constexpr int64_t kLanes = 8;
// Pixels summed up in float32 before the sum goes on in float64.
constexpr int64_t kSpan = 128;

using Lanes = float[kLanes];
using WideLanes = double[kLanes];

struct Group {
  int64_t offset;   // of the first lane within an image
  int64_t channel;  // the first
  int64_t lanes;    // stored lanes, 8 or fewer
  int64_t real;     // lanes that are channels, the others are padding
};

Group GroupAt(const ImageView& view, int64_t index) {
  const int64_t per_block = (view.lanes + kLanes - 1) / kLanes;
  const int64_t block = index / per_block;
  const int64_t lane = index % per_block * kLanes;
  Group group{};
  group.offset = block * view.block_stride + lane;
  group.channel = block * view.lanes + lane;
  group.lanes = std::min(kLanes, view.lanes - lane);
  group.real = std::clamp<int64_t>(view.channels - group.channel, 0, group.lanes);
  return group;
}

int64_t GroupCount(const ImageView& view) {
  return view.blocks * ((view.lanes + kLanes - 1) / kLanes);
}

// Calls body with the number of lanes as a constant where it is a whole vector.
template <class Body>
void WithLanes(int64_t lanes, const Body& body) {
  if (lanes == kLanes) {
    body(std::integral_constant<int64_t, kLanes>());
  } else {
    body(lanes);
  }
}

template <class Body>
void ForEachGroup(const ImageView& view, int threads, const Body& body) {
  ParallelFor(threads, GroupCount(view), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Group group = GroupAt(view, i);
      WithLanes(group.lanes, [&](auto lanes) { body(group, lanes); });
    }
  });
}

void LoadLanes(const float* values, const Group& group, float fill, Lanes& lanes) {
  for (int64_t l = 0; l < kLanes; ++l) {
    lanes[l] = l < group.real ? values[group.channel + l] : fill;
  }
}

void StoreLanes(const Lanes& lanes, const Group& group, float* values) {
  for (int64_t l = 0; l < group.real; ++l) {
    values[group.channel + l] = lanes[l];
  }
}

// y = (x - mean) * slope + offset: one rounding of the product, the same in forward and backward.
struct Affine {
  Lanes mean = {};
  Lanes inverse = {};  // 1 / standard deviation
  Lanes slope = {};    // scale * inverse
  Lanes offset = {};

  void Set(const float* scale, const float* offsets, const Group& group, const Lanes& variance,
           float epsilon) {
    LoadLanes(scale, group, 0.0F, slope);
    if (offsets != nullptr) {
      LoadLanes(offsets, group, 0.0F, offset);
    }
    for (int64_t l = 0; l < kLanes; ++l) {
      inverse[l] = 1.0F / std::sqrt(variance[l] + epsilon);
      slope[l] *= inverse[l];
    }
  }
};

// Sums of x - shift and its square. The shift, an element of the channel, keeps the difference of
// the two sums from cancelling.
template <class T, class Count>
void SumSquares(const ImageView& view, const T* x, Count lanes, const Lanes& shift, WideLanes& sum,
                WideLanes& squares) {
  for (int64_t n = 0; n < view.images; ++n) {
    const T* image = x + n * view.image_stride;
    for (int64_t begin = 0; begin < view.pixels(); begin += kSpan) {
      const int64_t end = std::min(view.pixels(), begin + kSpan);
      Lanes s = {};
      Lanes q = {};
      for (int64_t p = begin; p < end; ++p) {
        const T* pixel = image + p * view.pixel_stride;
        for (int64_t l = 0; l < lanes; ++l) {
          const float d = LoadFloat(pixel[l]) - shift[l];
          s[l] += d;
          q[l] += d * d;
        }
      }
      for (int64_t l = 0; l < kLanes; ++l) {
        sum[l] += static_cast<double>(s[l]);
        squares[l] += static_cast<double>(q[l]);
      }
    }
  }
}

template <class T, class Count>
void Statistics(const ImageView& view, const T* x, Count lanes, Lanes& mean, Lanes& variance) {
  const int64_t count = view.images * view.pixels();
  std::fill_n(mean, kLanes, 0.0F);
  std::fill_n(variance, kLanes, 0.0F);
  if (count == 0) {
    return;
  }
  Lanes shift = {};
  for (int64_t l = 0; l < lanes; ++l) {
    shift[l] = LoadFloat(x[l]);
  }
  WideLanes sum = {};
  WideLanes squares = {};
  SumSquares(view, x, lanes, shift, sum, squares);
  for (int64_t l = 0; l < lanes; ++l) {
    const double d = sum[l] / static_cast<double>(count);
    mean[l] = static_cast<float>(static_cast<double>(shift[l]) + d);
    const double v = squares[l] / static_cast<double>(count) - d * d;
    // Comparing this way keeps NaN.
    variance[l] = v < 0.0 ? 0.0F : static_cast<float>(v);
  }
}

template <bool kRelu, class T, class Count>
void Normalize(const ImageView& view, const T* x, Count lanes, const Affine& affine, T* y) {
  for (int64_t n = 0; n < view.images; ++n) {
    const T* from = x + n * view.image_stride;
    T* to = y + n * view.image_stride;
    for (int64_t p = 0; p < view.pixels(); ++p) {
      for (int64_t l = 0; l < lanes; ++l) {
        const float centered = LoadFloat(from[p * view.pixel_stride + l]) - affine.mean[l];
        const float value = std::fma(centered, affine.slope[l], affine.offset[l]);
        StoreFloat(to[p * view.pixel_stride + l], kRelu && value < 0.0F ? 0.0F : value);
      }
    }
  }
}

// The incoming gradient, cut where relu was zero.
template <bool kRelu>
inline float Incoming(float dy, float centered, float slope, float offset) {
  if (kRelu) {
    return std::fma(centered, slope, offset) > 0.0F ? dy : 0.0F;
  }
  return dy;
}

// Eight float32 lanes at once. Written out for the relu, whose selection the compiler turns into
// branches otherwise: ten times slower.
using Vector = float __attribute__((vector_size(32)));
using VectorMask = int32_t __attribute__((vector_size(32)));

inline Vector LoadVector(const float* from) {
  Vector vector;
  std::memcpy(&vector, from, sizeof(vector));
  return vector;
}

inline void StoreVector(const Vector& vector, float* to) {
  std::memcpy(to, &vector, sizeof(vector));
}

template <class T, class Count>
constexpr bool kWholeVectors =
    std::is_same_v<T, float>&& std::is_same_v<Count, std::integral_constant<int64_t, kLanes>>;

// As Incoming<true>.
inline Vector IncomingVector(const Vector& dy, const Vector& centered, const Vector& slope,
                             const Vector& offset) {
  const Vector y = centered * slope + offset;
  const VectorMask keep = y > Vector{};
  return reinterpret_cast<Vector>(reinterpret_cast<VectorMask>(dy) & keep);
}

// SumGradients<true> for whole vectors.
inline void SumReluGradients(const ImageView& view, const float* dy, const float* x,
                             const Affine& affine, WideLanes& sum, WideLanes& products) {
  const Vector mean = LoadVector(affine.mean);
  const Vector slope = LoadVector(affine.slope);
  const Vector offset = LoadVector(affine.offset);
  for (int64_t n = 0; n < view.images; ++n) {
    for (int64_t begin = 0; begin < view.pixels(); begin += kSpan) {
      const int64_t end = std::min(view.pixels(), begin + kSpan);
      Vector s = {};
      Vector q = {};
      for (int64_t p = begin; p < end; ++p) {
        const int64_t at = n * view.image_stride + p * view.pixel_stride;
        const Vector centered = LoadVector(x + at) - mean;
        const Vector g = IncomingVector(LoadVector(dy + at), centered, slope, offset);
        s += g;
        q += g * centered;
      }
      for (int64_t l = 0; l < kLanes; ++l) {
        sum[l] += static_cast<double>(s[l]);
        products[l] += static_cast<double>(q[l]);
      }
    }
  }
}

// InputGradient<true> for whole vectors.
inline void ReluInputGradient(const ImageView& view, const float* dy, const float* x,
                              const Affine& affine, const Lanes& a, const Lanes& b, float* dx) {
  const Vector mean = LoadVector(affine.mean);
  const Vector slope = LoadVector(affine.slope);
  const Vector offset = LoadVector(affine.offset);
  const Vector shift = LoadVector(a);
  const Vector factor = LoadVector(b);
  for (int64_t n = 0; n < view.images; ++n) {
    for (int64_t p = 0; p < view.pixels(); ++p) {
      const int64_t at = n * view.image_stride + p * view.pixel_stride;
      const Vector centered = LoadVector(x + at) - mean;
      const Vector g = IncomingVector(LoadVector(dy + at), centered, slope, offset);
      StoreVector(slope * (g - shift - centered * factor), dx + at);
    }
  }
}

// Sums of dy and of dy * (x - mean).
template <bool kRelu, class T, class Count>
void SumGradients(const ImageView& view, const T* dy, const T* x, Count lanes, const Affine& affine,
                  WideLanes& sum, WideLanes& products) {
  if constexpr (kRelu && kWholeVectors<T, Count>) {
    SumReluGradients(view, dy, x, affine, sum, products);
    return;
  }
  for (int64_t n = 0; n < view.images; ++n) {
    for (int64_t begin = 0; begin < view.pixels(); begin += kSpan) {
      const int64_t end = std::min(view.pixels(), begin + kSpan);
      Lanes s = {};
      Lanes q = {};
      for (int64_t p = begin; p < end; ++p) {
        const int64_t at = n * view.image_stride + p * view.pixel_stride;
        for (int64_t l = 0; l < lanes; ++l) {
          const float centered = LoadFloat(x[at + l]) - affine.mean[l];
          const float g =
              Incoming<kRelu>(LoadFloat(dy[at + l]), centered, affine.slope[l], affine.offset[l]);
          s[l] += g;
          q[l] += g * centered;
        }
      }
      for (int64_t l = 0; l < kLanes; ++l) {
        sum[l] += static_cast<double>(s[l]);
        products[l] += static_cast<double>(q[l]);
      }
    }
  }
}

// dx = slope * (dy - a - (x - mean) * b)
template <bool kRelu, class T, class Count>
void InputGradient(const ImageView& view, const T* dy, const T* x, Count lanes,
                   const Affine& affine, const Lanes& a, const Lanes& b, T* dx) {
  if constexpr (kRelu && kWholeVectors<T, Count>) {
    ReluInputGradient(view, dy, x, affine, a, b, dx);
    return;
  }
  for (int64_t n = 0; n < view.images; ++n) {
    for (int64_t p = 0; p < view.pixels(); ++p) {
      const int64_t at = n * view.image_stride + p * view.pixel_stride;
      for (int64_t l = 0; l < lanes; ++l) {
        const float centered = LoadFloat(x[at + l]) - affine.mean[l];
        const float g =
            Incoming<kRelu>(LoadFloat(dy[at + l]), centered, affine.slope[l], affine.offset[l]);
        StoreFloat(dx[at + l], affine.slope[l] * (g - a[l] - centered * b[l]));
      }
    }
  }
}

// Channels outermost have one lane, which the loops above are slow for: other kinds are asked for.
ImageLayout ChooseImage(const BatchNormSpec& spec, const Layout& layout) {
  if (spec.rank == 2) {
    return {};
  }
  const ImageLayout image = ClassifyOrPlain(spec.x, spec.axes, layout);
  if (image.kind != ImageLayout::Kind::kChannelsFirst) {
    return image;
  }
  const ImageLayout blocked = ConvolutionImage(spec.axes, spec.x[spec.axes.c]);
  return blocked.kind == ImageLayout::Kind::kBlocked
             ? blocked
             : ImageLayout{ImageLayout::Kind::kChannelsLast, 1};
}

Layout ChooseLayout(const BatchNormSpec& spec, const ImageLayout& image) {
  return spec.rank == 2 ? Layout() : ToLayout(spec.x, spec.axes, image);
}

template <bool kRelu, class T>
Kernel MakeForward(const BatchNormSpec& spec, const ImageLayout& image) {
  Kernel kernel;
  const Layout layout = ChooseLayout(spec, image);
  kernel.input_layouts = {layout, Layout(), Layout()};
  kernel.output_layouts = {layout, Layout(), Layout()};
  kernel.in_place = {0, Kernel::kNone, Kernel::kNone};
  kernel.run = [view = ViewImage(spec.x, spec.axes, image), epsilon = spec.epsilon,
                threads = spec.threads](const KernelArgs& args) {
    ForEachGroup(view, threads, [&](const Group& group, auto lanes) {
      const T* x = args.in<T>(0) + group.offset;
      Affine affine;
      Lanes variance = {};
      Statistics(view, x, lanes, affine.mean, variance);
      affine.Set(args.in<float>(1), args.in<float>(2), group, variance, epsilon);
      Normalize<kRelu>(view, x, lanes, affine, args.out<T>(0) + group.offset);
      StoreLanes(affine.mean, group, args.out<float>(1));
      StoreLanes(variance, group, args.out<float>(2));
    });
    return OkStatus();
  };
  return kernel;
}

template <bool kRelu, class T>
Kernel MakeInference(const BatchNormSpec& spec, const ImageLayout& image) {
  Kernel kernel;
  const Layout layout = ChooseLayout(spec, image);
  kernel.input_layouts = {layout, Layout(), Layout(), Layout(), Layout()};
  kernel.output_layouts = {layout};
  kernel.in_place = {0};
  kernel.run = [view = ViewImage(spec.x, spec.axes, image), epsilon = spec.epsilon,
                threads = spec.threads](const KernelArgs& args) {
    ForEachGroup(view, threads, [&](const Group& group, auto lanes) {
      Affine affine;
      Lanes variance = {};
      LoadLanes(args.in<float>(3), group, 0.0F, affine.mean);
      LoadLanes(args.in<float>(4), group, 0.0F, variance);
      affine.Set(args.in<float>(1), args.in<float>(2), group, variance, epsilon);
      Normalize<kRelu>(view, args.in<T>(0) + group.offset, lanes, affine,
                       args.out<T>(0) + group.offset);
    });
    return OkStatus();
  };
  return kernel;
}

// What the sums over the batch give besides dx.
struct ParameterGradients {
  Lanes scale;
  Lanes offset;
  Lanes mean;
  Lanes variance;

  ParameterGradients(const WideLanes& sum, const WideLanes& products, const Affine& affine) {
    for (int64_t l = 0; l < kLanes; ++l) {
      const auto inverse = static_cast<double>(affine.inverse[l]);
      const auto slope = static_cast<double>(affine.slope[l]);
      scale[l] = static_cast<float>(products[l] * inverse);
      offset[l] = static_cast<float>(sum[l]);
      mean[l] = static_cast<float>(-slope * sum[l]);
      variance[l] = static_cast<float>(-0.5 * slope * inverse * inverse * products[l]);
    }
  }
};

template <bool kRelu, class T>
Kernel MakeGrad(const BatchNormSpec& spec, const BatchNormGradInputs& inputs,
                const ImageLayout& image, bool fixed_statistics) {
  Kernel kernel;
  const Layout layout = ChooseLayout(spec, image);
  kernel.input_layouts.resize(kRelu ? 6 : 5);
  kernel.input_layouts[static_cast<size_t>(inputs.dy)] = layout;
  kernel.input_layouts[static_cast<size_t>(inputs.x)] = layout;
  kernel.output_layouts.resize(fixed_statistics ? 5 : 3);
  kernel.output_layouts[0] = layout;
  kernel.in_place.assign(kernel.output_layouts.size(), Kernel::kNone);
  kernel.in_place[0] = inputs.dy;
  kernel.run = [=, view = ViewImage(spec.x, spec.axes, image)](const KernelArgs& args) {
    const auto count = static_cast<double>(std::max<int64_t>(view.images * view.pixels(), 1));
    ForEachGroup(view, spec.threads, [&](const Group& group, auto lanes) {
      const T* dy = args.in<T>(inputs.dy) + group.offset;
      const T* x = args.in<T>(inputs.x) + group.offset;
      Affine affine;
      Lanes variance = {};
      LoadLanes(args.in<float>(inputs.mean), group, 0.0F, affine.mean);
      LoadLanes(args.in<float>(inputs.variance), group, 0.0F, variance);
      affine.Set(args.in<float>(inputs.scale), kRelu ? args.in<float>(inputs.offset) : nullptr,
                 group, variance, spec.epsilon);
      WideLanes sum = {};
      WideLanes products = {};
      SumGradients<kRelu>(view, dy, x, lanes, affine, sum, products);
      Lanes a = {};
      Lanes b = {};
      for (int64_t l = 0; l < kLanes && !fixed_statistics; ++l) {
        const auto inverse = static_cast<double>(affine.inverse[l]);
        a[l] = static_cast<float>(sum[l] / count);
        b[l] = static_cast<float>(products[l] * inverse * inverse / count);
      }
      InputGradient<kRelu>(view, dy, x, lanes, affine, a, b, args.out<T>(0) + group.offset);
      const ParameterGradients gradients(sum, products, affine);
      StoreLanes(gradients.scale, group, args.out<float>(1));
      StoreLanes(gradients.offset, group, args.out<float>(2));
      if (fixed_statistics) {
        StoreLanes(gradients.mean, group, args.out<float>(3));
        StoreLanes(gradients.variance, group, args.out<float>(4));
      }
    });
    return OkStatus();
  };
  return kernel;
}

}  // namespace

Result<Kernel> MakeBatchNorm(const BatchNormSpec& spec, const Layout& layout) {
  const ImageLayout image = ChooseImage(spec, layout);
  return DispatchElement(spec.dtype, "BatchNorm", [&](auto element) -> Result<Kernel> {
    using T = decltype(element);
    return spec.relu ? MakeForward<true, T>(spec, image) : MakeForward<false, T>(spec, image);
  });
}

Result<Kernel> MakeBatchNormInference(const BatchNormSpec& spec, const Layout& layout) {
  const ImageLayout image = ChooseImage(spec, layout);
  return DispatchElement(spec.dtype, "BatchNormInference", [&](auto element) -> Result<Kernel> {
    using T = decltype(element);
    return spec.relu ? MakeInference<true, T>(spec, image) : MakeInference<false, T>(spec, image);
  });
}

Result<Kernel> MakeBatchNormGrad(const BatchNormSpec& spec, const BatchNormGradInputs& inputs,
                                 const Layout& layout, bool fixed_statistics) {
  const ImageLayout image = ChooseImage(spec, layout);
  return DispatchElement(spec.dtype, "BatchNormGrad", [&](auto element) -> Result<Kernel> {
    using T = decltype(element);
    return spec.relu ? MakeGrad<true, T>(spec, inputs, image, fixed_statistics)
                     : MakeGrad<false, T>(spec, inputs, image, fixed_statistics);
  });
}

}  // namespace lockstep::op::internal
