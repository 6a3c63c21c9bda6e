// The program of a FusedElementwise node: steps separated by ';', each an op of the step tables,
// its attributes in the order of their declaration, and its operands. Operands are numbers: first
// the inputs of the node, then the results of the steps. The last step makes the output.
//
//   "Mul 0 1;LeakyRelu(0.2) 3;Add 4 2"        LeakyRelu(x0 * x1) + x2
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/result.h"
#include "lockstep/op/internal/elementwise_step.h"

namespace lockstep::op {

struct ProgramStep {
  const ElementwiseStep* step = nullptr;
  StepParams params;
  // One or two are used, as the step has inputs.
  std::array<int, 2> operands{};
};

inline constexpr int kMaxProgramInputs = 32;
inline constexpr int kMaxProgramSteps = 64;

// Text as described above; safe for any text.
Result<std::vector<ProgramStep>> ParseProgram(std::string_view text, int inputs);

// One step as text.
std::string FormatStep(std::string_view op, const AttrMap& attrs, std::span<const int> operands);

// For each step but the last the buffer that holds its result, so that as few as possible are
// needed; and their number.
struct RegisterPlan {
  std::vector<int> result;
  int count = 0;
};

RegisterPlan AssignRegisters(std::span<const ProgramStep> steps, int inputs);

}  // namespace lockstep::op
