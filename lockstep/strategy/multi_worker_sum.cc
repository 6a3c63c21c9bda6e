#include "lockstep/strategy/multi_worker_sum.h"

#include <fmt/format.h>

#include <utility>

namespace lockstep::strategy {

Result<std::unique_ptr<MultiWorkerSum>> MultiWorkerSum::Create(
    std::unique_ptr<collective::Group> group, const std::vector<Value>& partials,
    const MultiWorkerOptions& options) {
  LS_ASSIGN_OR_RETURN(GradientLayout layout,
                      GradientLayout::Create(partials, options.bucket_bytes));
  return std::make_unique<MultiWorkerSum>(Token(), std::move(group), std::move(layout), options);
}

data::BatchRange MultiWorkerSum::parts() const {
  const collective::ReplicaNode range = group_->map().range(group_->self());
  return {range.begin, range.end - range.begin};
}

Result<std::vector<Tensor>> MultiWorkerSum::AllocatePart() {
  const auto elements = static_cast<size_t>(layout_.elements());
  LS_ASSIGN_OR_RETURN(std::shared_ptr<net::Region> block,
                      group_->Allocate(elements * sizeof(float)));
  auto* const floats = static_cast<float*>(block->data());
  std::vector<Tensor> part;
  for (const GradientLayout::Slot& slot : layout_.slots()) {
    // Buffers of their own: a step writes to a tensor in place only where nobody shares it.
    const auto buffer =
        Buffer::Wrap(floats + slot.begin, static_cast<size_t>(slot.count) * sizeof(float), block);
    LS_ASSIGN_OR_RETURN(Tensor tensor, Tensor::View(DType::kFloat32, slot.shape, buffer, 0));
    part.push_back(std::move(tensor));
  }
  return part;
}

float* MultiWorkerSum::BlockOf(const std::vector<Tensor>& part) const {
  return part[0].values<float>().data() - layout_.slots()[0].begin;
}

Result<std::vector<Tensor>> MultiWorkerSum::Sum(collective::TreeSum& held) {
  const std::vector<collective::ReplicaNode> nodes = group_->map().nodes(group_->self());
  if (!nodes.empty()) {
    held.JoinFrom(nodes.back().begin);
  }
  LS_CHECK(held.nodes().size() == nodes.size());
  std::vector<const float*> blocks;
  for (const collective::TreeNode& node : held.nodes()) {
    blocks.push_back(BlockOf(node.tensors));
  }
  std::vector<std::vector<Tensor>> parts = held.TakeNodes();
  if (parts.empty()) {
    parts.push_back(held.TakeSpare());
  }
  std::vector<Tensor> sums = std::move(parts[0]);
  for (size_t i = 1; i < parts.size(); ++i) {
    held.GiveBack(std::move(parts[i]));
  }
  float* const result = BlockOf(sums);
  for (size_t i = 0; i < layout_.buckets().size(); ++i) {
    const GradientLayout::Bucket& bucket = layout_.buckets()[i];
    std::vector<const void*> inputs;
    for (const float* block : blocks) {
      inputs.push_back(block + bucket.begin);
    }
    LS_TRY(group_->Run(collective::AllReduceCall({.name = fmt::format("gradients/{}", i),
                                                  .dtype = DType::kFloat32,
                                                  .shape = Shape{bucket.count}},
                                                 std::move(inputs), result + bucket.begin),
                       group_->After(options_.timeout)));
  }
  return sums;
}

}  // namespace lockstep::strategy
