#include "lockstep/collective/reduce_op.h"

#include <fmt/format.h>

#include <type_traits>

#include "lockstep/tensor/bfloat16.h"

namespace lockstep::collective {
namespace {

// What the elements of T are computed in.
template <class T>
struct Arithmetic {
  using Type = T;

  static T Load(T value) { return value; }

  static T Store(T value) { return value; }
};

template <>
struct Arithmetic<BFloat16> {
  using Type = float;

  static float Load(BFloat16 value) { return value.ToFloat(); }

  static BFloat16 Store(float value) { return BFloat16::FromFloat(value); }
};

// Signed overflow is undefined, so integers are added and multiplied as unsigned ones.
template <class T>
T Add(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  } else {
    return a + b;
  }
}

template <class T>
T Multiply(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Unsigned>(a) * static_cast<Unsigned>(b));
  } else {
    return a * b;
  }
}

template <class T>
T Larger(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return b > a ? b : a;
  } else {
    const T numbers = b > a ? b : a;
    const T second = b != b ? b : numbers;
    return a != a ? a : second;
  }
}

template <class T>
T Smaller(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return b < a ? b : a;
  } else {
    const T numbers = b < a ? b : a;
    const T second = b != b ? b : numbers;
    return a != a ? a : second;
  }
}

template <class T, class Function>
void Loop(const T* a, const T* b, T* out, int64_t count, Function function) {
  using A = Arithmetic<T>;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    out[i] = A::Store(function(A::Load(a[i]), A::Load(b[i])));
  }
}

template <class T>
void CombineAs(ReduceOp op, const void* a, const void* b, void* out, int64_t count) {
  using Type = typename Arithmetic<T>::Type;
  const auto* left = static_cast<const T*>(a);
  const auto* right = static_cast<const T*>(b);
  auto* to = static_cast<T*>(out);
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kMean:
      return Loop(left, right, to, count, [](Type x, Type y) { return Add(x, y); });
    case ReduceOp::kProduct:
      return Loop(left, right, to, count, [](Type x, Type y) { return Multiply(x, y); });
    case ReduceOp::kMax:
      return Loop(left, right, to, count, [](Type x, Type y) { return Larger(x, y); });
    case ReduceOp::kMin:
      return Loop(left, right, to, count, [](Type x, Type y) { return Smaller(x, y); });
  }
}

template <class T>
void DivideAs(void* values, int64_t count, int64_t replicas) {
  using A = Arithmetic<T>;
  auto* to = static_cast<T*>(values);
  if constexpr (std::is_integral_v<T>) {
    // Of int32 too: their number may be larger than its largest value.
    for (int64_t i = 0; i < count; ++i) {
      to[i] = static_cast<T>(static_cast<int64_t>(to[i]) / replicas);
    }
  } else {
    const auto divisor = static_cast<typename A::Type>(replicas);
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      to[i] = A::Store(A::Load(to[i]) / divisor);
    }
  }
}

}  // namespace

std::string_view ReduceOpName(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kMean:
      return "mean";
    case ReduceOp::kMax:
      return "max";
    case ReduceOp::kMin:
      return "min";
    case ReduceOp::kProduct:
      return "product";
  }
  return "unknown";
}

Status CheckReducible(DType dtype) {
  if (dtype == DType::kUInt8 || dtype == DType::kBool) {
    return InvalidArgument(
        fmt::format("{} cannot be reduced: allowed are float32, bfloat16, float64, int32, int64",
                    DTypeName(dtype)));
  }
  return OkStatus();
}

void Combine(ReduceOp op, DType dtype, const void* a, const void* b, void* out, int64_t count) {
  switch (dtype) {
    case DType::kFloat32:
      return CombineAs<float>(op, a, b, out, count);
    case DType::kBFloat16:
      return CombineAs<BFloat16>(op, a, b, out, count);
    case DType::kFloat64:
      return CombineAs<double>(op, a, b, out, count);
    case DType::kInt32:
      return CombineAs<int32_t>(op, a, b, out, count);
    case DType::kInt64:
      return CombineAs<int64_t>(op, a, b, out, count);
    case DType::kUInt8:
    case DType::kBool:
      break;
  }
  LS_CHECK(CheckReducible(dtype).ok());
}

void DivideByReplicas(DType dtype, void* values, int64_t count, int64_t replicas) {
  switch (dtype) {
    case DType::kFloat32:
      return DivideAs<float>(values, count, replicas);
    case DType::kBFloat16:
      return DivideAs<BFloat16>(values, count, replicas);
    case DType::kFloat64:
      return DivideAs<double>(values, count, replicas);
    case DType::kInt32:
      return DivideAs<int32_t>(values, count, replicas);
    case DType::kInt64:
      return DivideAs<int64_t>(values, count, replicas);
    case DType::kUInt8:
    case DType::kBool:
      break;
  }
  LS_CHECK(CheckReducible(dtype).ok());
}

}  // namespace lockstep::collective
