#include "lockstep/pass/fuse.h"
#include "lockstep/pass/rewrite.h"

namespace lockstep::pass {
namespace {

bool AddsToLastOrSameFormat(const Node& product, const Node& bias_add) {
  const std::string& format = bias_add.attrs.GetString("data_format");
  return product.op->name == "MatMul" ? format == "NHWC" && product.outputs[0].shape.rank() == 2
                                      : format == product.attrs.GetString("data_format");
}

void FuseAt(const Node& bias_add, const Uses& uses, Rewriter& rewriter) {
  const Value product_value = bias_add.inputs[0];
  const Node& product = *product_value.node;
  const bool is_conv = product.op->name == "Conv2D";
  if ((!is_conv && product.op->name != "MatMul") || !uses.PrivateTo(product_value, &bias_add) ||
      !AddsToLastOrSameFormat(product, bias_add)) {
    return;
  }
  Node* last = const_cast<Node*>(&bias_add);
  std::vector<const Node*> group = {&product, &bias_add};
  const std::vector<Node*>& readers = uses.readers(last->output());
  const bool relu = readers.size() == 1 && readers[0]->op->name == "Relu" &&
                    readers[0]->control_inputs.empty() &&
                    uses.PrivateTo(last->output(), readers[0]);
  if (relu) {
    last = readers[0];
    group.push_back(last);
  }
  Replacement fused;
  fused.op = is_conv ? "FusedConv2D" : "FusedMatMul";
  fused.inputs = {product.inputs[0], product.inputs[1], bias_add.inputs[1]};
  fused.attrs = product.attrs;
  fused.attrs.Set("activation", std::string(relu ? "relu" : "none"));
  fused.outputs = {last->output()};
  rewriter.Replace(group, last, std::move(fused));
}

}  // namespace

Result<SpecializedGraph> FuseBias(SpecializedGraph graph) {
  const Uses uses(graph);
  Rewriter rewriter;
  for (const auto& node : graph.graph->nodes()) {
    if (node->op->name == "BiasAdd" && node->control_inputs.empty()) {
      FuseAt(*node, uses, rewriter);
    }
  }
  if (rewriter.empty()) {
    return graph;
  }
  return rewriter.Apply(graph);
}

}  // namespace lockstep::pass
