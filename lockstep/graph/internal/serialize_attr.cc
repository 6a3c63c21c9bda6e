#include "lockstep/graph/internal/serialize_attr.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "lockstep/base/quote.h"
#include "lockstep/graph/graph.pb.h"

namespace lockstep::internal {
namespace {

// Elements are copied as they lie in memory.
static_assert(std::endian::native == std::endian::little);

Status Within(std::string_view field, const Status& status) {
  return {status.code(), fmt::format("{}: {}", field, status.message())};
}

Status TensorToProto(const Tensor& tensor, proto::TensorProto& message) {
  if (!tensor.has_value()) {
    return InvalidArgument("the tensor has no value");
  }
  message.set_dtype(static_cast<int64_t>(tensor.dtype()));
  for (const int64_t dim : tensor.shape().dims()) {
    message.add_dims(dim);
  }
  message.set_data(tensor.data(), tensor.bytes());
  return OkStatus();
}

template <class Dims>
Result<Shape> ShapeFromDims(const Dims& dims) {
  Result<Shape> shape = Shape::Create({dims.data(), static_cast<size_t>(dims.size())});
  return shape.ok() ? std::move(shape) : Within("dims", shape.status());
}

Result<Tensor> TensorFromProto(const proto::TensorProto& message, const ParseLimits& limits) {
  const Result<DType> dtype = DTypeFromInt(message.dtype());
  if (!dtype.ok()) {
    return Within("dtype", dtype.status());
  }
  LS_ASSIGN_OR_RETURN(const Shape shape, ShapeFromDims(message.dims()));
  if (!shape.fully_known()) {
    return InvalidArgument(
        fmt::format("dims: a tensor needs a fully known shape, found {}", shape.ToString()));
  }
  const std::string& data = message.data();
  const auto elements = static_cast<uint64_t>(shape.num_elements());
  const size_t size = DTypeSize(*dtype);
  if (data.size() % size != 0 || data.size() / size != elements) {
    return InvalidArgument(fmt::format("data: {} bytes, a tensor {} {} needs {} times {}",
                                       data.size(), DTypeName(*dtype), shape.ToString(), elements,
                                       size));
  }
  if (data.size() > limits.max_tensor_bytes) {
    return ResourceExhausted(fmt::format("data: {} bytes, allowed are {} (max_tensor_bytes)",
                                         data.size(), limits.max_tensor_bytes));
  }
  if (*dtype == DType::kBool) {
    const auto bad =
        std::find_if(data.begin(), data.end(), [](char c) { return c != 0 && c != 1; });
    if (bad != data.end()) {
      return InvalidArgument(
          fmt::format("data: element {} of a bool tensor is {}, allowed are 0 "
                      "and 1",
                      bad - data.begin(), static_cast<unsigned char>(*bad)));
    }
  }
  LS_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(*dtype, shape));
  std::copy(data.begin(), data.end(), static_cast<char*>(tensor.data()));
  return tensor;
}

}  // namespace

Status CheckText(std::string_view text, size_t max_bytes) {
  if (text.size() > max_bytes) {
    return ResourceExhausted(
        fmt::format("{} has {} bytes, allowed are {}", Quoted(text, 16), text.size(), max_bytes));
  }
  if (HasControlCharacters(text)) {
    return InvalidArgument(fmt::format("{} has a control character", Quoted(text)));
  }
  return OkStatus();
}

Status AttrToProto(const AttrValue& value, proto::AttrValue& message) {
  switch (TypeOf(value)) {
    case AttrType::kBool:
      message.set_bool_value(std::get<bool>(value));
      break;
    case AttrType::kInt:
      message.set_int_value(std::get<int64_t>(value));
      break;
    case AttrType::kFloat:
      message.set_float_value(std::get<double>(value));
      break;
    case AttrType::kString:
      LS_TRY(CheckText(std::get<std::string>(value), std::numeric_limits<size_t>::max()));
      message.set_string_value(std::get<std::string>(value));
      break;
    case AttrType::kInts: {
      auto& ints = *message.mutable_ints_value();
      for (const int64_t element : std::get<std::vector<int64_t>>(value)) {
        ints.add_values(element);
      }
      break;
    }
    case AttrType::kDType:
      message.set_dtype_value(static_cast<int64_t>(std::get<DType>(value)));
      break;
    case AttrType::kShape: {
      auto& shape = *message.mutable_shape_value();
      for (const int64_t dim : std::get<Shape>(value).dims()) {
        shape.add_dims(dim);
      }
      break;
    }
    case AttrType::kTensor:
      return TensorToProto(std::get<Tensor>(value), *message.mutable_tensor_value());
  }
  return OkStatus();
}

Result<AttrValue> AttrFromProto(const proto::AttrValue& message, const ParseLimits& limits) {
  switch (message.value_case()) {
    case proto::AttrValue::kBoolValue:
      return AttrValue(message.bool_value());
    case proto::AttrValue::kIntValue:
      return AttrValue(int64_t{message.int_value()});
    case proto::AttrValue::kFloatValue:
      return AttrValue(message.float_value());
    case proto::AttrValue::kStringValue:
      LS_TRY(CheckText(message.string_value(), limits.max_string_bytes));
      return AttrValue(message.string_value());
    case proto::AttrValue::kIntsValue: {
      const auto& values = message.ints_value().values();
      return AttrValue(std::vector<int64_t>(values.begin(), values.end()));
    }
    case proto::AttrValue::kDtypeValue: {
      LS_ASSIGN_OR_RETURN(const DType dtype, DTypeFromInt(message.dtype_value()));
      return AttrValue(dtype);
    }
    case proto::AttrValue::kShapeValue: {
      LS_ASSIGN_OR_RETURN(const Shape shape, ShapeFromDims(message.shape_value().dims()));
      return AttrValue(shape);
    }
    case proto::AttrValue::kTensorValue: {
      LS_ASSIGN_OR_RETURN(Tensor tensor, TensorFromProto(message.tensor_value(), limits));
      return AttrValue(std::move(tensor));
    }
    case proto::AttrValue::VALUE_NOT_SET:
      break;
  }
  return InvalidArgument("there is no value");
}

}  // namespace lockstep::internal
