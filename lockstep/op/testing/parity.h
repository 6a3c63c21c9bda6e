// Parity cases: inputs, outputs and gradients that another framework computed, read from
// tests/parity/*.json (its README says what the fields mean), and a check of our ops against them.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/graph/builder.h"
#include "lockstep/op/testing/run_op.h"

namespace lockstep::op::testing {

struct ParityArray {
  std::string name;
  DoubleTensor tensor;
};

struct ParityCase {
  std::string name;
  std::string op;
  // bool, int, float, string, and lists of ints; other values are left out.
  AttrMap attrs;
  std::vector<ParityArray> inputs;
  std::vector<ParityArray> outputs;
  std::vector<ParityArray> grad_outputs;
  std::vector<ParityArray> grad_inputs;

  // An array of this name; there must be one.
  const DoubleTensor& Input(std::string_view array) const;
  const DoubleTensor& Output(std::string_view array) const;
};

// The cases of a file in tests/parity.
Result<std::vector<ParityCase>> LoadParityCases(const std::string& path);

using NamedValues = std::map<std::string, Value, std::less<>>;
// Adds the case's computation to a graph, from placeholders by the names of the inputs to values by
// the names of the outputs.
using ParityBuild =
    std::function<NamedValues(BuildContext ctx, const ParityCase& c, const NamedValues& inputs)>;

// Empty if outputs and gradients agree, computed with kernels (to `tolerance`) and with references
// (to 1e-6); otherwise what differs first. |a - b| <= tolerance * (1 + |b|).
std::string ParityDifference(const ParityCase& c, const ParityBuild& build,
                             double tolerance = 1e-5);

// Empty if two arrays agree.
std::string ArrayDifference(std::string_view name, const DoubleTensor& got,
                            const DoubleTensor& expected, double tolerance);

}  // namespace lockstep::op::testing
