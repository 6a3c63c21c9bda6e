// Tensors behind a message: the body of a call is the length of the message, the message, and the
// elements of the tensors that it describes. Sizes are checked before memory is taken.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/result.h"
#include "lockstep/cluster/internal/control.pb.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::cluster::internal {

using MetaList = google::protobuf::RepeatedPtrField<wire::TensorMeta>;

wire::TensorMeta MetaOf(const Tensor& tensor);

// `message` must describe `tensors` in order. INVALID_ARGUMENT for a tensor that holds nothing.
Result<std::string> PackTensors(const google::protobuf::MessageLite& message,
                                std::span<const Tensor> tensors);

struct Packed {
  std::string_view message;
  std::string_view elements;
};

Result<Packed> SplitPacked(std::string_view body);

// Exactly the tensors that `metas` describe.
Result<std::vector<Tensor>> UnpackTensors(const MetaList& metas, std::string_view elements);

}  // namespace lockstep::cluster::internal
