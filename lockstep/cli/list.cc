#include "lockstep/cli/list.h"

#include <fmt/format.h>

#include "lockstep/model/zoo.h"
#include "lockstep/op/catalog.h"

namespace lockstep::cli {
namespace {

std::string InputsOf(const OpDef& op) {
  if (op.max_inputs == OpDef::kVariadic) {
    return fmt::format("{}+", op.min_inputs);
  }
  return op.min_inputs == op.max_inputs ? fmt::format("{}", op.min_inputs)
                                        : fmt::format("{}-{}", op.min_inputs, op.max_inputs);
}

}  // namespace

Outcome ListModels() {
  for (const model::ModelInfo& info : model::Models()) {
    PrintOutput(fmt::format("{:<20} [{}]  {}\n", info.name, fmt::join(info.input_shape, ", "),
                            info.summary));
  }
  return Done();
}

Outcome ListOps() {
  PrintOutput(
      fmt::format("{:<40} {:<7} {:<9} {}\n", "op", "inputs", "gradient", "what it computes"));
  for (const OpDef& op : op::Catalog().ops()) {
    if (!op.internal) {
      PrintOutput(fmt::format("{:<40} {:<7} {:<9} {}\n", op.name, InputsOf(op),
                              op.grad ? "yes" : "-", op.summary));
    }
  }
  return Done();
}

}  // namespace lockstep::cli
