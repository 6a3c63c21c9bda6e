#include "lockstep/op/internal/elementwise_step.h"

#include <algorithm>
#include <initializer_list>

namespace lockstep::op {

StepParams ReadStepParams(const OpDef& op, const AttrMap& attrs) {
  LS_CHECK(op.attrs.size() <= 2);
  double values[2] = {};
  for (size_t i = 0; i < op.attrs.size(); ++i) {
    const AttrDef& def = op.attrs[i];
    values[i] = def.type == AttrType::kBool ? static_cast<double>(attrs.GetBool(def.name))
                                            : attrs.GetFloat(def.name);
  }
  return {values[0], values[1]};
}

const ElementwiseStep* FindStep(std::string_view op) {
  for (const auto steps : {ActivationSteps(), ActivationGradSteps(), BinarySteps(), UnarySteps()}) {
    const auto found = std::find_if(steps.begin(), steps.end(),
                                    [&](const ElementwiseStep& step) { return step.op == op; });
    if (found != steps.end()) {
      return &*found;
    }
  }
  return nullptr;
}

}  // namespace lockstep::op
