// Tensor: element type, fully known shape, and row-major elements in a shared buffer. Copying a
// Tensor shares the buffer. Writing while another holder reads is the caller's race: share only
// what is finished.
//
//   LS_ASSIGN_OR_RETURN(Tensor t, Tensor::Zeros(DType::kFloat32, Shape{2, 3}));
//   std::span<float> values = t.values<float>();
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/result.h"
#include "lockstep/tensor/bfloat16.h"
#include "lockstep/tensor/buffer.h"
#include "lockstep/tensor/dtype.h"
#include "lockstep/tensor/shape.h"

namespace lockstep {

class Tensor {
 public:
  // Holds nothing; has_value() is false.
  Tensor() = default;

  // Uninitialised elements.
  static Result<Tensor> Allocate(DType dtype, const Shape& shape);
  static Result<Tensor> Zeros(DType dtype, const Shape& shape);

  // Views `buffer` from its byte `offset`; the view must lie inside and be aligned to the element
  // size.
  static Result<Tensor> View(DType dtype, const Shape& shape, std::shared_ptr<Buffer> buffer,
                             size_t offset);

  // Copies `values`, whose number must match the shape.
  template <class T>
  static Result<Tensor> From(const Shape& shape, std::span<const T> values);

  template <class T>
  static Result<Tensor> From(const Shape& shape, std::initializer_list<T> values) {
    return From<T>(shape, std::span<const T>(values.begin(), values.size()));
  }

  template <class T>
  static Result<Tensor> From(const Shape& shape, const std::vector<T>& values) {
    return From<T>(shape, std::span<const T>(values));
  }

  template <class T>
  static Result<Tensor> Scalar(T value) {
    return From<T>(Shape{}, std::span<const T>(&value, 1));
  }

  bool has_value() const { return buffer_ != nullptr; }

  DType dtype() const { return dtype_; }

  const Shape& shape() const { return shape_; }

  int64_t num_elements() const { return shape_.num_elements(); }

  size_t bytes() const { return static_cast<size_t>(num_elements()) * DTypeSize(dtype_); }

  void* data() const { return static_cast<char*>(buffer_->data()) + offset_; }

  // T must be the element type.
  template <class T>
  std::span<T> values() const {
    LS_CHECK(has_value() && DTypeOf<T>() == dtype_);
    return {static_cast<T*>(data()), static_cast<size_t>(num_elements())};
  }

  // True if no other Tensor shares the buffer, so that it may be written again: what the others did
  // with it, in whatever thread, is over and visible.
  bool unique() const;

  // The same elements under another shape of equal size.
  Result<Tensor> Reshaped(const Shape& shape) const;

  // Elements converted to double, for tests, references and printing.
  std::vector<double> ToDoubles() const;

  // "float32 [2, 3] = {1, 2, ...}" with at most `max_elements` values.
  std::string ToString(int max_elements = 8) const;

 private:
  DType dtype_ = DType::kFloat32;
  Shape shape_;
  std::shared_ptr<Buffer> buffer_;
  size_t offset_ = 0;
};

// Conversion of `count` elements between element types: floats round to nearest even, floats to
// integers truncate and saturate (NaN becomes 0), anything to bool is != 0.
void ConvertElements(DType from, const void* source, DType to, void* target, int64_t count);

template <class T>
Result<Tensor> Tensor::From(const Shape& shape, std::span<const T> values) {
  if (static_cast<int64_t>(values.size()) != shape.num_elements()) {
    return InvalidArgument("a tensor of shape " + shape.ToString() + " cannot hold " +
                           std::to_string(values.size()) + " values");
  }
  LS_ASSIGN_OR_RETURN(Tensor tensor, Allocate(DTypeOf<T>(), shape));
  if (!values.empty()) {
    std::memcpy(tensor.data(), values.data(), values.size_bytes());
  }
  return tensor;
}

}  // namespace lockstep
