#include "lockstep/cluster/internal/tensor_codec.h"

#include <fmt/format.h>

#include <cstring>

#include "lockstep/cluster/internal/bytes.h"
#include "lockstep/cluster/internal/proto_io.h"

namespace lockstep::cluster::internal {

wire::TensorMeta MetaOf(const Tensor& tensor) {
  wire::TensorMeta meta;
  meta.set_dtype(static_cast<int>(tensor.dtype()));
  for (const int64_t dim : tensor.shape().dims()) {
    meta.add_dims(dim);
  }
  return meta;
}

Result<std::string> PackTensors(const google::protobuf::MessageLite& message,
                                std::span<const Tensor> tensors) {
  LS_ASSIGN_OR_RETURN(const std::string head, ToBytes(message));
  size_t bytes = sizeof(uint32_t) + head.size();
  for (const Tensor& tensor : tensors) {
    if (!tensor.has_value()) {
      return InvalidArgument("a tensor that holds nothing cannot be sent");
    }
    bytes += tensor.bytes();
  }
  ByteWriter writer;
  writer.Reserve(bytes);
  writer.U32(static_cast<uint32_t>(head.size()));
  writer.Bytes(head);
  for (const Tensor& tensor : tensors) {
    writer.Bytes({static_cast<const char*>(tensor.data()), tensor.bytes()});
  }
  return writer.Take();
}

Result<Packed> SplitPacked(std::string_view body) {
  ByteReader reader(body);
  Packed packed;
  packed.message = reader.Bytes(reader.U32());
  packed.elements = reader.rest();
  if (!reader.ok()) {
    return InvalidArgument("a body that is shorter than its message");
  }
  return packed;
}

Result<std::vector<Tensor>> UnpackTensors(const MetaList& metas, std::string_view elements) {
  ByteReader reader(elements);
  std::vector<Tensor> tensors;
  for (const wire::TensorMeta& meta : metas) {
    LS_ASSIGN_OR_RETURN(const DType dtype, DTypeFromInt(meta.dtype()));
    LS_ASSIGN_OR_RETURN(const Shape shape,
                        Shape::Create({meta.dims().data(), static_cast<size_t>(meta.dims_size())}));
    if (!shape.fully_known()) {
      return InvalidArgument(
          fmt::format("a tensor of the open shape {} among those of a call", shape.ToString()));
    }
    const auto count = static_cast<uint64_t>(shape.num_elements());
    if (count > reader.rest().size()) {  // every element has a byte at least
      return InvalidArgument(fmt::format("a tensor {} {} that has no elements in its call",
                                         DTypeName(dtype), shape.ToString()));
    }
    const std::string_view bytes = reader.Bytes(count * DTypeSize(dtype));
    if (!reader.ok()) {
      return InvalidArgument(fmt::format("a tensor {} {} that has too few elements in its call",
                                         DTypeName(dtype), shape.ToString()));
    }
    LS_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(dtype, shape));
    if (!bytes.empty()) {
      std::memcpy(tensor.data(), bytes.data(), bytes.size());
    }
    tensors.push_back(std::move(tensor));
  }
  if (!reader.rest().empty()) {
    return InvalidArgument(
        fmt::format("{} bytes behind the tensors of a call", reader.rest().size()));
  }
  return tensors;
}

}  // namespace lockstep::cluster::internal
