#include "lockstep/op/fused_elementwise.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "lockstep/op/catalog.h"
#include "lockstep/op/internal/broadcast_kernel.h"
#include "lockstep/op/internal/elementwise_program.h"

namespace lockstep::op {
namespace {

// Elements of a strip: a few of them, 2 KiB each, fit a first-level cache.
constexpr int64_t kStrip = 512;

bool HasOneElement(const Shape& shape) {
  const auto dims = shape.dims();
  return std::all_of(dims.begin(), dims.end(), [](int64_t dim) { return dim == 1; });
}

Status Infer(InferContext& ctx) {
  LS_TRY(ParseProgram(ctx.attrs().GetString("program"), ctx.num_inputs()).status());
  Shape shape;
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    LS_TRY(ctx.ExpectDType(i, DType::kFloat32));
    LS_ASSIGN_OR_RETURN(shape, BroadcastShapes(shape, ctx.shape(i)));
  }
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    if (!HasOneElement(ctx.shape(i)) && !ctx.shape(i).CompatibleWith(shape)) {
      return InvalidArgument(fmt::format("input {} has the shape {}, expected {} or one element", i,
                                         ctx.shape(i).ToString(), shape.ToString()));
    }
  }
  ctx.AddOutput(DType::kFloat32, shape);
  return OkStatus();
}

// A program bound to sizes.
class ChainRunner {
 public:
  ChainRunner(std::vector<ProgramStep> steps, const KernelRequest& request)
      : steps_(std::move(steps)),
        registers_(AssignRegisters(steps_, static_cast<int>(request.inputs.size()))),
        n_(request.outputs[0].shape.num_elements()) {
    for (const TensorDesc& input : request.inputs) {
      const bool expand = input.shape.num_elements() != n_;
      scalar_slots_.push_back(expand ? scalar_count_++ : -1);
    }
    const int64_t useful = (n_ + kElementGrain - 1) / kElementGrain;
    parts_ = static_cast<int>(std::clamp<int64_t>(useful, 1, std::max(1, request.threads)));
  }

  size_t scratch_bytes() const {
    const auto strips = static_cast<size_t>(scalar_count_ + parts_ * registers_.count);
    return strips * static_cast<size_t>(kStrip) * sizeof(float);
  }

  void Run(const KernelArgs& args) const {
    auto* scratch = static_cast<float*>(args.scratch);
    // Inputs of one element become strips of it.
    for (size_t i = 0; i < scalar_slots_.size(); ++i) {
      if (scalar_slots_[i] >= 0) {
        std::fill_n(scratch + scalar_slots_[i] * kStrip, kStrip,
                    *args.in<float>(static_cast<int>(i)));
      }
    }
    const int64_t strips = (n_ + kStrip - 1) / kStrip;
    ParallelFor(parts_, parts_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) {
        float* own = scratch + (scalar_count_ + part * registers_.count) * kStrip;
        for (int64_t s = strips * part / parts_; s < strips * (part + 1) / parts_; ++s) {
          RunStrip(args, scratch, own, s * kStrip);
        }
      }
    });
  }

 private:
  void RunStrip(const KernelArgs& args, const float* scalars, float* own, int64_t at) const {
    const int64_t length = std::min(kStrip, n_ - at);
    const auto inputs = scalar_slots_.size();
    const auto operand = [&](int number) -> const float* {
      const auto index = static_cast<size_t>(number);
      if (index >= inputs) {
        return own + registers_.result[index - inputs] * kStrip;
      }
      return scalar_slots_[index] >= 0 ? scalars + scalar_slots_[index] * kStrip
                                       : args.in<float>(number) + at;
    };
    for (size_t s = 0; s < steps_.size(); ++s) {
      const ProgramStep& step = steps_[s];
      float* result =
          s + 1 == steps_.size() ? args.out<float>(0) + at : own + registers_.result[s] * kStrip;
      step.step->run(operand(step.operands[0]), operand(step.operands[1]), result, length,
                     step.params);
    }
  }

  std::vector<ProgramStep> steps_;
  RegisterPlan registers_;
  int64_t n_;
  // For each input of one element its strip in the scratch memory, otherwise -1.
  std::vector<int> scalar_slots_;
  int scalar_count_ = 0;
  int parts_ = 1;
};

Result<Kernel> Cpu(const KernelRequest& request) {
  LS_ASSIGN_OR_RETURN(std::vector<ProgramStep> steps,
                      ParseProgram(request.node.attrs.GetString("program"),
                                   static_cast<int>(request.inputs.size())));
  const ChainRunner runner(std::move(steps), request);
  Kernel kernel = ElementwiseKernel(request);
  kernel.scratch_bytes = runner.scratch_bytes();
  kernel.run = [runner](const KernelArgs& args) {
    runner.Run(args);
    return OkStatus();
  };
  return kernel;
}

AttrMap StepAttrs(const OpDef& def, const StepParams& params) {
  AttrMap attrs;
  const double values[] = {params.a, params.b};
  for (size_t i = 0; i < def.attrs.size(); ++i) {
    if (def.attrs[i].type == AttrType::kBool) {
      attrs.Set(def.attrs[i].name, values[i] != 0.0);
    } else {
      attrs.Set(def.attrs[i].name, values[i]);
    }
  }
  return attrs;
}

// The references of the steps, one after another.
Status Reference(const ReferenceContext& ctx) {
  LS_ASSIGN_OR_RETURN(
      const std::vector<ProgramStep> steps,
      ParseProgram(ctx.node.attrs.GetString("program"), static_cast<int>(ctx.inputs.size())));
  const size_t n = ctx.outputs[0].size();
  std::vector<std::vector<double>> values;
  for (const std::vector<double>& input : ctx.inputs) {
    values.push_back(input.size() == n ? input : std::vector<double>(n, input[0]));
  }
  const Shape flat{static_cast<int64_t>(n)};
  for (const ProgramStep& step : steps) {
    Node node;
    node.op = Catalog().Find(step.step->op);
    node.attrs = StepAttrs(*node.op, step.params);
    std::vector<Shape> shapes;
    std::vector<std::vector<double>> inputs;
    for (int i = 0; i < step.step->inputs; ++i) {
      shapes.push_back(flat);
      inputs.push_back(values[static_cast<size_t>(step.operands[static_cast<size_t>(i)])]);
    }
    std::vector<std::vector<double>> outputs(1, std::vector<double>(n));
    const DType dtype = DType::kFloat32;
    LS_TRY(
        node.op->reference({node, shapes, inputs, {&flat, 1}, outputs, {}, ctx.step, {&dtype, 1}}));
    values.push_back(std::move(outputs[0]));
  }
  ctx.outputs[0] = std::move(values.back());
  return OkStatus();
}

std::vector<Sample> Samples() {
  const Shape image{2, 3, 4, 5};
  return {{.name = "one step", .inputs = {{image}}, .attrs = {{"program", "Relu 0"}}},
          {.name = "chain",
           .inputs = {{image}, {image}, {image}},
           .attrs = {{"program", "Mul 0 1;LeakyRelu(0.25) 3;Add 4 2"}}},
          {.name = "scalar",
           .inputs = {{image}, {Shape{}}},
           .attrs = {{"program", "Mul 0 1;Sigmoid 2;Mul 3 0"}}},
          {.name = "many live values",
           .inputs = {{Shape{3000}}, {Shape{1}}},
           .attrs = {{"program", "Exp 0;Tanh 0;Add 2 1;Sub 2 3;Mul 4 5;Maximum 6 2;SiluGrad 7 3"}},
           .check_gradient = false},
          {.name = "two threads",
           .inputs = {{Shape{50001}}, {Shape{50001}}},
           .attrs = {{"program", "Clip(-1,0.5) 0;Gelu(1) 1;Mul 2 3;Square 4"}},
           .check_gradient = false}};
}

// Equal for every value of open dimensions, because only one input is not a single element.
bool ShapesSurelyMatch(const Node& node) {
  const Shape& output = node.outputs[0].shape;
  return std::all_of(node.inputs.begin(), node.inputs.end(), [&](const Value& input) {
    const Shape& shape = input.shape();
    const bool same = shape == output && (shape.fully_known() || node.inputs.size() == 1);
    return same || HasOneElement(shape);
  });
}

// What the nodes read from elsewhere, each value once.
std::vector<Value> OutsideInputs(std::span<const Node* const> nodes) {
  std::vector<Value> inputs;
  for (const Node* node : nodes) {
    for (const Value& input : node->inputs) {
      if (std::find(nodes.begin(), nodes.end(), input.node) == nodes.end() &&
          std::find(inputs.begin(), inputs.end(), input) == inputs.end()) {
        inputs.push_back(input);
      }
    }
  }
  return inputs;
}

}  // namespace

OpDef FusedElementwiseDef() {
  return {.name = "FusedElementwise",
          .summary = "a chain of element-wise ops in one pass",
          .min_inputs = 1,
          .max_inputs = kMaxProgramInputs,
          .attrs = {{"program", AttrType::kString}},
          .infer = Infer,
          .cpu = Cpu,
          .reference = Reference,
          .samples = Samples,
          .internal = true};
}

bool IsFusible(const Node& node) {
  const bool sum = node.op->name == "AddN" && node.inputs.size() >= 2;
  if (!sum && FindStep(node.op->name) == nullptr) {
    return false;
  }
  const bool float32 = std::all_of(node.inputs.begin(), node.inputs.end(), [](const Value& input) {
    return input.dtype() == DType::kFloat32;
  });
  return float32 && ShapesSurelyMatch(node);
}

Result<ElementwiseChain> MakeElementwiseChain(std::span<const Node* const> nodes) {
  if (nodes.empty()) {
    return InvalidArgument("a chain of no nodes");
  }
  const Shape& shape = nodes.back()->outputs[0].shape;
  for (const Node* node : nodes) {
    const Shape& own = node->outputs[0].shape;
    if (!IsFusible(*node) || !(own == shape || HasOneElement(own))) {
      return InvalidArgument(fmt::format("{} cannot be part of a chain of shape {}",
                                         node->Describe(), shape.ToString()));
    }
  }
  ElementwiseChain chain;
  chain.inputs = OutsideInputs(nodes);
  // The operand number of every value.
  std::unordered_map<Value, int, ValueHash> numbers;
  for (const Value& input : chain.inputs) {
    numbers.emplace(input, static_cast<int>(numbers.size()));
  }
  auto next = static_cast<int>(numbers.size());
  const auto emit = [&](std::string_view op, const AttrMap& attrs, std::vector<int> operands) {
    chain.program += chain.program.empty() ? "" : ";";
    chain.program += FormatStep(op, attrs, operands);
    return next++;
  };
  for (const Node* node : nodes) {
    std::vector<int> operands;
    for (const Value& input : node->inputs) {
      if (!numbers.contains(input)) {
        return InvalidArgument(fmt::format("{} reads a later node of its chain", node->Describe()));
      }
      operands.push_back(numbers[input]);
    }
    int result = operands[0];
    if (node->op->name == "AddN") {
      for (size_t i = 1; i < operands.size(); ++i) {
        result = emit("Add", {}, {result, operands[i]});
      }
    } else {
      result = emit(node->op->name, node->attrs, operands);
    }
    numbers[Value{const_cast<Node*>(node), 0}] = result;
  }
  LS_TRY(ParseProgram(chain.program, static_cast<int>(chain.inputs.size())).status());
  return chain;
}

}  // namespace lockstep::op
