#include "lockstep/cluster/internal/tensor_codec.h"

#include <gtest/gtest.h>

#include <cstring>

namespace lockstep::cluster::internal {
namespace {

wire::Tensors MessageOf(const std::vector<Tensor>& tensors) {
  wire::Tensors message;
  for (const Tensor& tensor : tensors) {
    *message.add_tensors() = MetaOf(tensor);
  }
  return message;
}

Result<std::vector<Tensor>> Unpack(std::string_view body) {
  LS_ASSIGN_OR_RETURN(const Packed packed, SplitPacked(body));
  wire::Tensors message;
  if (!message.ParseFromArray(packed.message.data(), static_cast<int>(packed.message.size()))) {
    return InvalidArgument("no message");
  }
  return UnpackTensors(message.tensors(), packed.elements);
}

std::vector<Tensor> Samples() {
  return {Tensor::From<float>({2, 3}, {1, 2, 3, 4, 5, 6}).value(),
          Tensor::Scalar<int64_t>(-7).value(), Tensor::Zeros(DType::kUInt8, {4, 0}).value(),
          Tensor::From<uint8_t>({3}, {7, 8, 9}).value()};
}

TEST(TensorCodecTest, RoundTrip) {
  const std::vector<Tensor> tensors = Samples();
  const auto back = Unpack(PackTensors(MessageOf(tensors), tensors).value());
  ASSERT_TRUE(back.ok()) << back.status().ToString();
  ASSERT_EQ(back->size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ((*back)[i].ToString(), tensors[i].ToString());
    EXPECT_EQ((*back)[i].dtype(), tensors[i].dtype());
  }
}

TEST(TensorCodecTest, CutBodiesAreRefused) {
  const std::vector<Tensor> tensors = Samples();
  const std::string body = PackTensors(MessageOf(tensors), tensors).value();
  for (size_t size = 0; size < body.size(); ++size) {
    EXPECT_FALSE(Unpack(body.substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(Unpack(body + "x").ok());
}

TEST(TensorCodecTest, HostileShapesTakeNoMemory) {
  for (const std::vector<int64_t>& dims : {std::vector<int64_t>{1LL << 40},
                                           {-1},
                                           {1LL << 62, 1LL << 62},
                                           {1, 1, 1, 1, 1, 1, 1, 1, 1}}) {
    wire::Tensors message;
    wire::TensorMeta* meta = message.add_tensors();
    meta->set_dtype(static_cast<int>(DType::kFloat32));
    meta->mutable_dims()->Assign(dims.begin(), dims.end());
    EXPECT_FALSE(UnpackTensors(message.tensors(), "1234").ok());
  }
  wire::Tensors message;
  message.add_tensors()->set_dtype(99);
  EXPECT_FALSE(UnpackTensors(message.tensors(), "1234").ok());
}

TEST(TensorCodecTest, EmptyTensorsAreNotSent) {
  EXPECT_FALSE(PackTensors(wire::Tensors(), std::vector<Tensor>(1)).ok());
}

}  // namespace
}  // namespace lockstep::cluster::internal
