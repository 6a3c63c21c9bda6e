#include "lockstep/op/internal/elementwise_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "lockstep/op/catalog.h"

namespace lockstep::op {
namespace {

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(end + 1);
  }
}

template <class T>
bool ParseNumber(std::string_view text, T& value) {
  const char* end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && parsed == end;
}

Status BadStep(std::string_view text, std::string_view why) {
  return InvalidArgument(fmt::format("the program step '{}' {}", text, why));
}

// "Name" or "Name(1,2)".
Status ParseFunction(std::string_view text, std::string_view whole, ProgramStep& result) {
  const size_t open = text.find('(');
  const std::string_view name = text.substr(0, open);
  result.step = FindStep(name);
  const OpDef* def = Catalog().Find(name);
  if (result.step == nullptr || def == nullptr) {
    return BadStep(whole, fmt::format("names '{}', which is no element-wise op", name));
  }
  std::vector<std::string_view> params;
  if (open != std::string_view::npos) {
    if (text.back() != ')') {
      return BadStep(whole, "has no closing parenthesis");
    }
    params = Split(text.substr(open + 1, text.size() - open - 2), ',');
  }
  if (params.size() != def->attrs.size()) {
    return BadStep(whole,
                   fmt::format("has {} attributes, expected {}", params.size(), def->attrs.size()));
  }
  double* const targets[] = {&result.params.a, &result.params.b};
  for (size_t i = 0; i < params.size(); ++i) {
    if (!ParseNumber(params[i], *targets[i])) {
      return BadStep(whole, fmt::format("has the attribute '{}', expected a number", params[i]));
    }
  }
  return OkStatus();
}

Result<ProgramStep> ParseStep(std::string_view text, int operands_before) {
  const std::vector<std::string_view> words = Split(text, ' ');
  ProgramStep result;
  LS_TRY(ParseFunction(words[0], text, result));
  if (words.size() != static_cast<size_t>(result.step->inputs) + 1) {
    return BadStep(
        text, fmt::format("has {} operands, expected {}", words.size() - 1, result.step->inputs));
  }
  for (size_t i = 1; i < words.size(); ++i) {
    int& operand = result.operands[i - 1];
    if (!ParseNumber(words[i], operand) || operand < 0 || operand >= operands_before) {
      return BadStep(text, fmt::format("has the operand '{}', expected 0 to {}", words[i],
                                       operands_before - 1));
    }
  }
  if (result.step->inputs == 1) {
    result.operands[1] = result.operands[0];
  }
  return result;
}

}  // namespace

Result<std::vector<ProgramStep>> ParseProgram(std::string_view text, int inputs) {
  const std::vector<std::string_view> parts = Split(text, ';');
  if (inputs < 1 || inputs > kMaxProgramInputs || parts.size() > kMaxProgramSteps) {
    return InvalidArgument(
        fmt::format("a program of {} inputs and {} steps, allowed are 1 to {} "
                    "inputs and at most {} steps",
                    inputs, parts.size(), kMaxProgramInputs, kMaxProgramSteps));
  }
  std::vector<ProgramStep> steps;
  for (const std::string_view part : parts) {
    LS_ASSIGN_OR_RETURN(ProgramStep step, ParseStep(part, inputs + static_cast<int>(steps.size())));
    steps.push_back(step);
  }
  return steps;
}

std::string FormatStep(std::string_view op, const AttrMap& attrs, std::span<const int> operands) {
  std::string text(op);
  const OpDef* def = Catalog().Find(op);
  LS_CHECK(def != nullptr);
  const StepParams params = ReadStepParams(*def, attrs);
  if (def->attrs.size() == 1) {
    text += fmt::format("({})", params.a);
  } else if (def->attrs.size() == 2) {
    text += fmt::format("({},{})", params.a, params.b);
  }
  for (const int operand : operands) {
    text += fmt::format(" {}", operand);
  }
  return text;
}

RegisterPlan AssignRegisters(std::span<const ProgramStep> steps, int inputs) {
  // The last step that reads each result.
  std::vector<size_t> last_use(steps.size());
  for (size_t s = 0; s < steps.size(); ++s) {
    last_use[s] = s;
    for (const int operand : steps[s].operands) {
      if (operand >= inputs) {
        last_use[static_cast<size_t>(operand - inputs)] = s;
      }
    }
  }
  RegisterPlan plan;
  std::vector<int> free;
  for (size_t s = 0; s + 1 < steps.size(); ++s) {
    // A step may write over what it reads for the last time.
    for (size_t earlier = 0; earlier < s; ++earlier) {
      if (last_use[earlier] == s) {
        free.push_back(plan.result[earlier]);
      }
    }
    if (free.empty()) {
      free.push_back(plan.count++);
    }
    plan.result.push_back(free.back());
    free.pop_back();
    if (last_use[s] == s) {
      free.push_back(plan.result[s]);
    }
  }
  return plan;
}

}  // namespace lockstep::op
