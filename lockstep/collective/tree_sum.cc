#include "lockstep/collective/tree_sum.h"

#include "lockstep/collective/reduce_op.h"

namespace lockstep::collective {
namespace {

void AddInto(const Tensor& target, const Tensor& other, Codec codec) {
  const std::span<float> to = target.values<float>();
  const std::span<float> from = other.values<float>();
  LS_CHECK(to.size() == from.size());
  Combine(ReduceOp::kSum, DType::kFloat32, to.data(), from.data(), to.data(),
          static_cast<int64_t>(to.size()));
  RoundNode(codec, to.data(), static_cast<int64_t>(to.size()));
}

}  // namespace

void TreeSum::MergeLast() {
  TreeNode last = std::move(nodes_.back());
  nodes_.pop_back();
  TreeNode& target = nodes_.back();
  for (size_t i = 0; i < last.tensors.size(); ++i) {
    AddInto(target.tensors[i], last.tensors[i], codec_);
  }
  target.size *= 2;
  spare_.push_back(std::move(last.tensors));
}

void TreeSum::Add(TreeNode node) {
  LS_CHECK(nodes_.empty() || nodes_.back().begin + nodes_.back().size == node.begin);
  nodes_.push_back(std::move(node));
  while (nodes_.size() >= 2) {
    const TreeNode& left = nodes_[nodes_.size() - 2];
    const TreeNode& right = nodes_.back();
    if (left.size != right.size || left.begin % (2 * left.size) != 0) {
      break;
    }
    MergeLast();
  }
}

void TreeSum::JoinFrom(int64_t begin) {
  while (nodes_.size() >= 2 && nodes_[nodes_.size() - 2].begin >= begin) {
    MergeLast();
  }
}

std::vector<Tensor> TreeSum::Finish() {
  LS_CHECK(!nodes_.empty());
  JoinFrom(nodes_.front().begin);
  std::vector<Tensor> sum = std::move(nodes_.back().tensors);
  nodes_.clear();
  return sum;
}

std::vector<std::vector<Tensor>> TreeSum::TakeNodes() {
  std::vector<std::vector<Tensor>> taken;
  for (TreeNode& node : nodes_) {
    taken.push_back(std::move(node.tensors));
  }
  nodes_.clear();
  return taken;
}

std::vector<Tensor> TreeSum::TakeSpare() {
  if (spare_.empty()) {
    return {};
  }
  std::vector<Tensor> tensors = std::move(spare_.back());
  spare_.pop_back();
  return tensors;
}

void TreeSum::GiveBack(std::vector<Tensor> tensors) {
  spare_.push_back(std::move(tensors));
}

}  // namespace lockstep::collective
