#include "lockstep/op/testing/parity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "lockstep/graph/grad_context.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/catalog.h"
#include "lockstep/op/gather.h"
#include "lockstep/op/placeholder.h"
#include "lockstep/op/testing/interpreter.h"

namespace lockstep::op::testing {
namespace {

using Json = nlohmann::json;

Result<std::vector<ParityArray>> ReadArrays(const Json& list) {
  std::vector<ParityArray> arrays;
  for (const Json& entry : list) {
    ParityArray array;
    array.name = entry.at("name").get<std::string>();
    LS_ASSIGN_OR_RETURN(array.tensor.dtype, ParseDType(entry.at("dtype").get<std::string>()));
    array.tensor.shape = Shape(entry.at("shape").get<std::vector<int64_t>>());
    array.tensor.values = entry.at("data").get<std::vector<double>>();
    arrays.push_back(std::move(array));
  }
  return arrays;
}

AttrMap ReadAttrs(const Json& object) {
  AttrMap attrs;
  for (const auto& [name, value] : object.items()) {
    if (value.is_boolean()) {
      attrs.Set(name, value.get<bool>());
    } else if (value.is_number_integer()) {
      attrs.Set(name, value.get<int64_t>());
    } else if (value.is_number_float()) {
      attrs.Set(name, value.get<double>());
    } else if (value.is_string()) {
      attrs.Set(name, value.get<std::string>());
    } else if (value.is_array() && std::all_of(value.begin(), value.end(), [](const Json& item) {
                 return item.is_number_integer();
               })) {
      attrs.Set(name, value.get<std::vector<int64_t>>());
    }
  }
  return attrs;
}

Result<ParityCase> ReadCase(const Json& json) {
  ParityCase c;
  c.name = json.at("name").get<std::string>();
  c.op = json.at("op").get<std::string>();
  c.attrs = ReadAttrs(json.at("attrs"));
  LS_ASSIGN_OR_RETURN(c.inputs, ReadArrays(json.at("inputs")));
  LS_ASSIGN_OR_RETURN(c.outputs, ReadArrays(json.at("outputs")));
  LS_ASSIGN_OR_RETURN(c.grad_outputs, ReadArrays(json.value("grad_outputs", Json::array())));
  LS_ASSIGN_OR_RETURN(c.grad_inputs, ReadArrays(json.value("grad_inputs", Json::array())));
  return c;
}

const DoubleTensor& Find(const std::vector<ParityArray>& arrays, std::string_view name) {
  const auto it = std::find_if(arrays.begin(), arrays.end(),
                               [&](const ParityArray& array) { return array.name == name; });
  LS_CHECK(it != arrays.end());
  return it->tensor;
}

// Reverse mode over the nodes that exist when it is called: the gradients of sum(dy * y).
class Backward {
 public:
  explicit Backward(Builder& builder) : builder_(builder) {}

  void Add(Value value, Value gradient) {
    Value& sum = sums_[value];
    sum = sum.valid() ? op::Add(builder_, sum, gradient) : gradient;
  }

  Status Run(const std::vector<Node*>& order) {
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      LS_TRY(RunNode(**it));
    }
    return builder_.status();
  }

  // Invalid: zero.
  Value Of(Value value) const {
    const auto it = sums_.find(value);
    return it == sums_.end() ? Value{} : it->second;
  }

 private:
  Status RunNode(Node& node) {
    std::vector<Value> output_grads;
    bool any = false;
    for (int i = 0; i < static_cast<int>(node.outputs.size()); ++i) {
      output_grads.push_back(Of(node.output(i)));
      any = any || output_grads.back().valid();
    }
    if (!any || node.inputs.empty() || node.op->grad == nullptr) {
      return OkStatus();
    }
    GradContext ctx(builder_, node, std::move(output_grads));
    LS_TRY(node.op->grad(ctx));
    const std::vector<Gradient> grads = ctx.TakeInputGrads();
    for (size_t i = 0; i < grads.size(); ++i) {
      if (grads[i].is_sparse()) {
        Add(node.inputs[i],
            ScatterAddRows(builder_, grads[i].indices, grads[i].values, node.inputs[i]));
      } else if (!grads[i].is_zero()) {
        Add(node.inputs[i], grads[i].dense);
      }
    }
    return OkStatus();
  }

  Builder& builder_;
  std::unordered_map<Value, Value, ValueHash> sums_;
};

// The graph of one case and what to compare in it.
struct Built {
  explicit Built(const OpCatalog& catalog) : graph(catalog) {}

  Graph graph;
  NamedValues inputs;
  NamedValues outputs;
  NamedValues upstream;
  // Invalid: zero.
  NamedValues gradients;
};

Status Build(const ParityCase& c, const ParityBuild& build, Built* built) {
  Builder builder(built->graph);
  for (const ParityArray& input : c.inputs) {
    built->inputs[input.name] = Placeholder(builder, input.tensor.dtype, input.tensor.shape);
  }
  built->outputs = build(builder, c, built->inputs);
  LS_TRY(builder.status());
  LS_ASSIGN_OR_RETURN(const std::vector<Node*> order, built->graph.TopologicalOrder());
  Backward backward(builder);
  for (const ParityArray& dy : c.grad_outputs) {
    const Value value = Placeholder(builder, dy.tensor.dtype, dy.tensor.shape);
    built->upstream[dy.name] = value;
    const auto output = built->outputs.find(dy.name);
    if (output == built->outputs.end()) {
      return Internal(fmt::format("the case has no output '{}'", dy.name));
    }
    backward.Add(output->second, value);
  }
  LS_TRY(backward.Run(order));
  for (const ParityArray& dx : c.grad_inputs) {
    built->gradients[dx.name] = backward.Of(built->inputs[dx.name]);
  }
  return OkStatus();
}

std::string Compare(const ParityCase& c, const Built& built, Interpreter::Mode mode,
                    double tolerance) {
  Interpreter run(mode);
  for (const ParityArray& input : c.inputs) {
    run.Feed(built.inputs.at(input.name), input.tensor);
  }
  for (const ParityArray& dy : c.grad_outputs) {
    run.Feed(built.upstream.at(dy.name), dy.tensor);
  }
  const auto check = [&](const std::string& what, Value value, const DoubleTensor& expected) {
    if (!value.valid()) {
      return ArrayDifference(
          what, {expected.dtype, expected.shape, std::vector<double>(expected.values.size())},
          expected, tolerance);
    }
    const Result<DoubleTensor> got = run.Evaluate(built.graph, value);
    return got.ok() ? ArrayDifference(what, *got, expected, tolerance) : got.status().ToString();
  };
  for (const ParityArray& output : c.outputs) {
    const auto it = built.outputs.find(output.name);
    std::string difference = it == built.outputs.end()
                                 ? fmt::format("no output '{}'", output.name)
                                 : check(output.name, it->second, output.tensor);
    if (!difference.empty()) {
      return difference;
    }
  }
  for (const ParityArray& dx : c.grad_inputs) {
    std::string difference =
        check(fmt::format("gradient of {}", dx.name), built.gradients.at(dx.name), dx.tensor);
    if (!difference.empty()) {
      return difference;
    }
  }
  return "";
}

}  // namespace

const DoubleTensor& ParityCase::Input(std::string_view array) const {
  return Find(inputs, array);
}

const DoubleTensor& ParityCase::Output(std::string_view array) const {
  return Find(outputs, array);
}

Result<std::vector<ParityCase>> LoadParityCases(const std::string& path) {
  std::ifstream file(path);
  const Json json = Json::parse(file, nullptr, false);
  if (json.is_discarded()) {
    return InvalidArgument(fmt::format("{}: cannot be read as JSON", path));
  }
  std::vector<ParityCase> cases;
  for (const Json& entry : json.at("cases")) {
    LS_ASSIGN_OR_RETURN(ParityCase c, ReadCase(entry));
    cases.push_back(std::move(c));
  }
  return cases;
}

std::string ArrayDifference(std::string_view name, const DoubleTensor& got,
                            const DoubleTensor& expected, double tolerance) {
  if (got.shape != expected.shape || got.dtype != expected.dtype) {
    return fmt::format("{}: got {} {}, expected {} {}", name, DTypeName(got.dtype),
                       got.shape.ToString(), DTypeName(expected.dtype), expected.shape.ToString());
  }
  for (size_t i = 0; i < expected.values.size(); ++i) {
    if (!(std::abs(got.values[i] - expected.values[i]) <=
          tolerance * (1.0 + std::abs(expected.values[i])))) {
      return fmt::format("{}: element {} of {} is {:.9g}, expected {:.9g} (tolerance {})", name, i,
                         expected.shape.ToString(), got.values[i], expected.values[i], tolerance);
    }
  }
  return "";
}

std::string ParityDifference(const ParityCase& c, const ParityBuild& build, double tolerance) {
  Built built(Catalog());
  const Status status = Build(c, build, &built);
  if (!status.ok()) {
    return status.ToString();
  }
  const std::string difference = Compare(c, built, Interpreter::Mode::kKernels, tolerance);
  if (!difference.empty()) {
    return "kernels: " + difference;
  }
  const std::string exact = Compare(c, built, Interpreter::Mode::kReferences, 1e-6);
  return exact.empty() ? "" : "references: " + exact;
}

}  // namespace lockstep::op::testing
