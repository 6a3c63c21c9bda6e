#include "lockstep/tensor/tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <type_traits>

namespace lockstep {
namespace {

template <class To, class From>
To ConvertOne(From from) {
  if constexpr (std::is_same_v<From, BFloat16>) {
    return ConvertOne<To>(from.ToFloat());
  } else if constexpr (std::is_same_v<To, BFloat16>) {
    return BFloat16::FromFloat(static_cast<float>(from));
  } else if constexpr (std::is_same_v<To, bool>) {
    return from != From{};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (std::isnan(from)) {
      return To{};
    }
    const double value = std::trunc(static_cast<double>(from));
    if (value >= static_cast<double>(std::numeric_limits<To>::max())) {
      return std::numeric_limits<To>::max();
    }
    return value <= static_cast<double>(std::numeric_limits<To>::min())
               ? std::numeric_limits<To>::min()
               : static_cast<To>(value);
  } else {
    return static_cast<To>(from);
  }
}

// Calls f with a null pointer of the C++ type of dtype.
template <class F>
void WithType(DType dtype, F f) {
  switch (dtype) {
    case DType::kFloat32:
      return f(static_cast<float*>(nullptr));
    case DType::kBFloat16:
      return f(static_cast<BFloat16*>(nullptr));
    case DType::kFloat64:
      return f(static_cast<double*>(nullptr));
    case DType::kInt32:
      return f(static_cast<int32_t*>(nullptr));
    case DType::kInt64:
      return f(static_cast<int64_t*>(nullptr));
    case DType::kUInt8:
      return f(static_cast<uint8_t*>(nullptr));
    case DType::kBool:
      return f(static_cast<bool*>(nullptr));
  }
}

}  // namespace

Result<Tensor> Tensor::Allocate(DType dtype, const Shape& shape) {
  if (!shape.fully_known()) {
    return InvalidArgument(
        fmt::format("a tensor needs a fully known shape, found {}", shape.ToString()));
  }
  LS_ASSIGN_OR_RETURN(const Shape checked, Shape::Create(shape.dims()));
  size_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<size_t>(checked.num_elements()), DTypeSize(dtype),
                             &bytes)) {
    return ResourceExhausted(
        fmt::format("a tensor {} {} is too large", DTypeName(dtype), shape.ToString()));
  }
  Tensor tensor;
  tensor.dtype_ = dtype;
  tensor.shape_ = shape;
  LS_ASSIGN_OR_RETURN(tensor.buffer_, Buffer::Allocate(bytes));
  return tensor;
}

Result<Tensor> Tensor::Zeros(DType dtype, const Shape& shape) {
  LS_ASSIGN_OR_RETURN(Tensor tensor, Allocate(dtype, shape));
  std::memset(tensor.data(), 0, tensor.bytes());
  return tensor;
}

Result<Tensor> Tensor::View(DType dtype, const Shape& shape, std::shared_ptr<Buffer> buffer,
                            size_t offset) {
  LS_CHECK(buffer != nullptr);
  if (!shape.fully_known()) {
    return InvalidArgument(
        fmt::format("a tensor needs a fully known shape, found {}", shape.ToString()));
  }
  Tensor tensor;
  tensor.dtype_ = dtype;
  tensor.shape_ = shape;
  tensor.buffer_ = std::move(buffer);
  tensor.offset_ = offset;
  const size_t available = tensor.buffer_->size() - std::min(offset, tensor.buffer_->size());
  if (offset % DTypeSize(dtype) != 0 || tensor.bytes() > available) {
    return OutOfRange(fmt::format("a view {} {} at byte {} does not fit a buffer of {} bytes",
                                  DTypeName(dtype), shape.ToString(), offset,
                                  tensor.buffer_->size()));
  }
  return tensor;
}

bool Tensor::unique() const {
  if (buffer_.use_count() != 1) {
    return false;
  }
#if defined(LS_THREAD_SANITIZER)
  // The sanitizer does not know fences; a copy of the pointer is an acquire that it sees.
  return std::shared_ptr<Buffer>(buffer_).use_count() == 2;
#else
  // use_count() is read without order; letting go of the buffer was a release.
  std::atomic_thread_fence(std::memory_order_acquire);
  return true;
#endif
}

Result<Tensor> Tensor::Reshaped(const Shape& shape) const {
  if (shape.num_elements() != num_elements()) {
    return InvalidArgument(fmt::format("a tensor of shape {} cannot take the shape {}",
                                       shape_.ToString(), shape.ToString()));
  }
  Tensor tensor = *this;
  tensor.shape_ = shape;
  return tensor;
}

std::vector<double> Tensor::ToDoubles() const {
  std::vector<double> result(static_cast<size_t>(num_elements()));
  ConvertElements(dtype_, data(), DType::kFloat64, result.data(), num_elements());
  return result;
}

std::string Tensor::ToString(int max_elements) const {
  if (!has_value()) {
    return "no tensor";
  }
  const auto shown = static_cast<size_t>(std::min<int64_t>(max_elements, num_elements()));
  std::vector<double> doubles(shown);
  ConvertElements(dtype_, data(), DType::kFloat64, doubles.data(), static_cast<int64_t>(shown));
  const bool cut = static_cast<int64_t>(shown) < num_elements();
  return fmt::format("{} {} = {{{}{}}}", DTypeName(dtype_), shape_.ToString(),
                     fmt::join(doubles, ", "), cut ? ", ..." : "");
}

void ConvertElements(DType from, const void* source, DType to, void* target, int64_t count) {
  WithType(from, [&](auto* from_type) {
    WithType(to, [&](auto* to_type) {
      using From = std::remove_pointer_t<decltype(from_type)>;
      using To = std::remove_pointer_t<decltype(to_type)>;
      const auto* in = static_cast<const From*>(source);
      auto* out = static_cast<To*>(target);
      for (int64_t i = 0; i < count; ++i) {
        if constexpr (std::is_same_v<From, To>) {
          out[i] = in[i];
        } else {
          out[i] = ConvertOne<To>(in[i]);
        }
      }
    });
  });
}

}  // namespace lockstep
