#include "lockstep/pass/fuse.h"
#include "lockstep/pass/rewrite.h"

namespace lockstep::pass {
namespace {

// y = relu(BatchNorm(x)), where nothing else reads the normalised x. Stands where the norm stood,
// as its statistics may be read before the relu.
void FuseForward(const Node& norm, const Uses& uses, Rewriter& rewriter) {
  const Value normalised{const_cast<Node*>(&norm), 0};
  const std::vector<Node*>& readers = uses.readers(normalised);
  if (readers.size() != 1 || readers[0]->op->name != "Relu" ||
      !readers[0]->control_inputs.empty() || !uses.PrivateTo(normalised, readers[0])) {
    return;
  }
  Node* relu = readers[0];
  Replacement fused;
  fused.op = "FusedBatchNormRelu";
  fused.inputs = norm.inputs;
  fused.attrs = norm.attrs;
  fused.outputs = {relu->output(), {normalised.node, 1}, {normalised.node, 2}};
  rewriter.Replace({&norm, relu}, &norm, std::move(fused));
}

// BatchNormGrad(ReluGrad(dy, relu(norm)), x, scale, mean, variance) of the norm with that relu.
void FuseBackward(const Node& grad, const Uses& uses, Rewriter& rewriter) {
  const Node* relu_grad = grad.inputs[0].node;
  if (relu_grad->op->name != "ReluGrad" || !uses.PrivateTo(grad.inputs[0], &grad)) {
    return;
  }
  const Node* relu = relu_grad->inputs[1].node;
  const Node* norm = grad.inputs[3].node;
  if (relu->op->name != "Relu" || norm->op->name != "BatchNorm" ||
      !(relu->inputs[0] == Value{const_cast<Node*>(norm), 0}) ||
      !uses.SeeTheSameVariables(norm, &grad)) {
    return;
  }
  Replacement fused;
  fused.op = "FusedBatchNormReluGrad";
  fused.inputs = {relu_grad->inputs[0], grad.inputs[1], grad.inputs[2],
                  norm->inputs[2],      grad.inputs[3], grad.inputs[4]};
  fused.attrs = grad.attrs;
  for (int i = 0; i < static_cast<int>(grad.outputs.size()); ++i) {
    fused.outputs.push_back({const_cast<Node*>(&grad), i});
  }
  rewriter.Replace({relu_grad, &grad}, &grad, std::move(fused));
}

}  // namespace

Result<SpecializedGraph> FuseBatchNorm(SpecializedGraph graph) {
  const Uses uses(graph);
  Rewriter rewriter;
  for (const auto& node : graph.graph->nodes()) {
    if (!node->control_inputs.empty()) {
      continue;
    }
    if (node->op->name == "BatchNorm") {
      FuseForward(*node, uses, rewriter);
    } else if (node->op->name == "BatchNormGrad") {
      FuseBackward(*node, uses, rewriter);
    }
  }
  if (rewriter.empty()) {
    return graph;
  }
  return rewriter.Apply(graph);
}

}  // namespace lockstep::pass
