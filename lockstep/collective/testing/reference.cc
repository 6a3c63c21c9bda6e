#include "lockstep/collective/testing/reference.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "lockstep/tensor/bfloat16.h"

namespace lockstep::collective::testing {
namespace {

uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9E3779B97F4A7C15U + b + 1;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

double RealLeaf(ReduceOp op, uint64_t random) {
  // 24 random bits with a random sign and scale.
  const double unit = 1.0 + static_cast<double>(random & 0xFFFFFF) / 0x1000000;
  const double sign = (random >> 24) % 2 == 0 ? 1 : -1;
  if (op == ReduceOp::kProduct) {
    return sign * std::ldexp(unit, (random >> 25) % 2 == 0 ? 0 : -1);
  }
  if (op == ReduceOp::kMax || op == ReduceOp::kMin) {
    switch ((random >> 32) % 16) {
      case 0:
        return std::copysign(0.0, sign);
      case 1:
        return std::numeric_limits<double>::quiet_NaN();
      case 2:
        return sign * std::numeric_limits<double>::infinity();
      default:
        break;
    }
  }
  return sign * std::ldexp(unit, static_cast<int>((random >> 25) % 20) - 10);
}

template <class T>
T Leaf(ReduceOp op, int64_t replica, int64_t element) {
  const uint64_t random = Mix(static_cast<uint64_t>(replica), static_cast<uint64_t>(element));
  if constexpr (std::is_same_v<T, BFloat16>) {
    return BFloat16::FromFloat(static_cast<float>(RealLeaf(op, random)));
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(RealLeaf(op, random));
  } else {
    return static_cast<T>(random);
  }
}

template <class T>
T ApplyScalar(ReduceOp op, T a, T b) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return BFloat16::FromFloat(ApplyScalar<float>(op, a.ToFloat(), b.ToFloat()));
  } else {
    const auto is_nan = [](T value) { return value != value; };
    switch (op) {
      case ReduceOp::kMax:
        return is_nan(a) ? a : is_nan(b) || b > a ? b : a;
      case ReduceOp::kMin:
        return is_nan(a) ? a : is_nan(b) || b < a ? b : a;
      default:
        break;
    }
    T result{};
    if constexpr (std::is_integral_v<T>) {
      // The built-ins store the wrapped value.
      static_cast<void>(op == ReduceOp::kProduct ? __builtin_mul_overflow(a, b, &result)
                                                 : __builtin_add_overflow(a, b, &result));
    } else {
      result = op == ReduceOp::kProduct ? a * b : a + b;
    }
    return result;
  }
}

// The node [begin, begin + size), cut off at `replicas`, by its definition.
template <class T>
T NodeValue(ReduceOp op, int64_t begin, int64_t size, int64_t replicas, int64_t element) {
  if (size == 1) {
    return Leaf<T>(op, begin, element);
  }
  const T left = NodeValue<T>(op, begin, size / 2, replicas, element);
  if (begin + size / 2 >= replicas) {
    return left;
  }
  return ApplyScalar<T>(op, left, NodeValue<T>(op, begin + size / 2, size / 2, replicas, element));
}

template <class T>
T Divide(T sum, int64_t replicas) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return BFloat16::FromFloat(sum.ToFloat() / static_cast<float>(replicas));
  } else {
    return static_cast<T>(sum / static_cast<T>(replicas));
  }
}

int64_t SizeOf(const ReplicaNode& node) {
  int64_t size = 1;
  while (node.begin + size < node.end) {
    size *= 2;
  }
  return size;
}

template <class T>
Bytes ValuesOf(const CallSpec& spec, const ReplicaNode& node, int64_t replicas, bool divide) {
  const int64_t elements = spec.shape.num_elements();
  Bytes bytes(static_cast<size_t>(elements) * sizeof(T));
  for (int64_t element = 0; element < elements; ++element) {
    T value = NodeValue<T>(spec.op, node.begin, SizeOf(node), replicas, element);
    if (divide) {
      value = Divide(value, replicas);
    }
    std::memcpy(bytes.data() + static_cast<size_t>(element) * sizeof(T), &value, sizeof(T));
  }
  return bytes;
}

template <class T>
ReductionCase MakeCase(const CallSpec& spec, int64_t replicas, int members) {
  ReductionCase made{.spec = spec, .replicas = replicas, .nodes = {}, .expected = {}};
  for (const ReplicaNode& node : ReplicaMap(replicas, members).all_nodes()) {
    made.nodes.push_back(ValuesOf<T>(spec, node, replicas, false));
  }
  made.expected = ValuesOf<T>(spec, {0, replicas}, replicas, spec.op == ReduceOp::kMean);
  return made;
}

}  // namespace

ReductionCase MakeReductionCase(const CallSpec& spec, int64_t replicas, int members) {
  switch (spec.dtype) {
    case DType::kBFloat16:
      return MakeCase<BFloat16>(spec, replicas, members);
    case DType::kFloat64:
      return MakeCase<double>(spec, replicas, members);
    case DType::kInt32:
      return MakeCase<int32_t>(spec, replicas, members);
    case DType::kInt64:
      return MakeCase<int64_t>(spec, replicas, members);
    default:
      return MakeCase<float>(spec, replicas, members);
  }
}

Bytes Pattern(size_t bytes, uint64_t seed) {
  Bytes pattern(bytes);
  for (size_t i = 0; i < bytes; ++i) {
    pattern[i] = static_cast<std::byte>(Mix(seed, i));
  }
  return pattern;
}

}  // namespace lockstep::collective::testing
