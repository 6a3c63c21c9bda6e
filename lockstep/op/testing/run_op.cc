#include "lockstep/op/testing/run_op.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>

#include "lockstep/op/catalog.h"

namespace lockstep::op::testing {
namespace {

constexpr size_t kGuardBytes = 64;
constexpr int kPattern = 0xFF;  // NaN in every floating type

Layout OfferedLayout(const Shape& shape, InputLayout kind) {
  const int rank = shape.rank();
  if (kind == InputLayout::kPlain || rank < 2 || shape.num_elements() == 0) {
    return {};
  }
  std::array<int64_t, Shape::kMaxRank> padded{};
  std::array<int64_t, Shape::kMaxRank> strides{};
  std::copy(shape.dims().begin(), shape.dims().end(), padded.begin());
  const auto size = static_cast<size_t>(rank);
  if (kind == InputLayout::kTransposed) {
    int64_t stride = 1;
    for (size_t i = 1; i < size; ++i) {
      strides[i] = stride;
      stride *= padded[i];
    }
    strides[0] = stride;
    return Layout::Blocked(shape, {padded.data(), size}, {strides.data(), size}, {});
  }
  constexpr int64_t kBlock = 8;
  padded[1] = (padded[1] + kBlock - 1) / kBlock * kBlock;
  int64_t stride = kBlock;
  for (size_t i = size; i-- > 0;) {
    strides[i] = stride;
    stride *= i == 1 ? padded[i] / kBlock : padded[i];
  }
  const Layout::Block block{1, kBlock};
  return Layout::Blocked(shape, {padded.data(), size}, {strides.data(), size}, {&block, 1});
}

// Memory in one layout with a guard behind it.
struct Storage {
  std::vector<char> memory;
  size_t bytes = 0;
  char* data = nullptr;

  explicit Storage(size_t size) : memory(size + kGuardBytes + Buffer::kAlignment), bytes(size) {
    std::memset(memory.data(), kPattern, memory.size());
    void* start = memory.data();
    size_t space = memory.size();
    data = static_cast<char*>(std::align(Buffer::kAlignment, size + kGuardBytes, start, space));
  }

  Storage(Storage&&) = default;
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  ~Storage() = default;

  bool intact() const {
    return std::all_of(data + bytes, data + bytes + kGuardBytes,
                       [](char c) { return c == static_cast<char>(kPattern); });
  }
};

template <class F>
void ForEachIndex(const Shape& shape, F f) {
  std::array<int64_t, Shape::kMaxRank> index{};
  const int64_t count = shape.num_elements();
  for (int64_t flat = 0; flat < count; ++flat) {
    f(flat, std::span<const int64_t>(index.data(), static_cast<size_t>(shape.rank())));
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      auto& position = index[static_cast<size_t>(axis)];
      if (++position < shape[axis]) {
        break;
      }
      position = 0;
    }
  }
}

Storage Pack(const Tensor& tensor, const Layout& layout) {
  Storage storage(layout.Bytes(tensor.shape(), tensor.dtype()));
  if (!layout.is_dense_for(tensor.shape())) {
    std::memset(storage.data, 0, storage.bytes);
  }
  const size_t size = DTypeSize(tensor.dtype());
  const char* source = static_cast<const char*>(tensor.data());
  ForEachIndex(tensor.shape(), [&](int64_t flat, std::span<const int64_t> index) {
    const auto offset = static_cast<size_t>(layout.OffsetOf(tensor.shape(), index));
    std::memcpy(storage.data + offset * size, source + static_cast<size_t>(flat) * size, size);
  });
  return storage;
}

Result<Tensor> Unpack(const char* data, const TensorType& type, const Layout& layout) {
  LS_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(type.dtype, type.shape));
  const size_t size = DTypeSize(type.dtype);
  char* target = static_cast<char*>(tensor.data());
  ForEachIndex(type.shape, [&](int64_t flat, std::span<const int64_t> index) {
    const auto offset = static_cast<size_t>(layout.OffsetOf(type.shape, index));
    std::memcpy(target + static_cast<size_t>(flat) * size, data + offset * size, size);
  });
  return tensor;
}

// The answer with its defaults filled in, checked against the contract.
Status Complete(Kernel& kernel, size_t inputs, size_t outputs) {
  kernel.input_layouts.resize(kernel.input_layouts.empty() ? inputs : kernel.input_layouts.size());
  kernel.output_layouts.resize(kernel.output_layouts.empty() ? outputs
                                                             : kernel.output_layouts.size());
  for (std::vector<int>* map : {&kernel.in_place, &kernel.alias}) {
    if (map->empty()) {
      map->resize(outputs, Kernel::kNone);
    }
    const bool in_range = std::all_of(map->begin(), map->end(), [&](int i) {
      return i >= Kernel::kNone && i < static_cast<int>(inputs);
    });
    if (map->size() != outputs || !in_range) {
      return Internal("the kernel's in_place or alias does not match its inputs and outputs");
    }
  }
  if (kernel.input_layouts.size() != inputs || kernel.output_layouts.size() != outputs) {
    return Internal("the kernel's layouts do not match its inputs and outputs");
  }
  return OkStatus();
}

struct Descriptions {
  std::vector<TensorDesc> inputs;
  std::vector<TensorDesc> outputs;
  std::vector<TensorType> output_types;
};

Result<Descriptions> Describe(const Node& node, std::span<const Tensor> inputs,
                              InputLayout layout) {
  Descriptions result;
  std::vector<TensorType> types;
  for (size_t i = 0; i < inputs.size(); ++i) {
    types.push_back({inputs[i].dtype(), inputs[i].shape(), node.inputs[i].type().is_variable});
    const bool shape_only = node.op->UsesShapeOnly(static_cast<int>(i));
    result.inputs.push_back({inputs[i].dtype(), inputs[i].shape(),
                             shape_only ? Layout() : OfferedLayout(inputs[i].shape(), layout)});
  }
  LS_ASSIGN_OR_RETURN(result.output_types, InferOutputs(node, types));
  for (const TensorType& type : result.output_types) {
    if (!type.shape.fully_known()) {
      return Internal(fmt::format("inference leaves {} open", type.shape.ToString()));
    }
    result.outputs.push_back({type.dtype, type.shape, {}});
  }
  return result;
}

Status CheckInPlace(const Kernel& kernel, const Descriptions& desc, size_t output) {
  const int from = kernel.in_place[output];
  if (from == Kernel::kNone) {
    return OkStatus();
  }
  const auto input = static_cast<size_t>(from);
  const TensorDesc& a = desc.inputs[input];
  const TensorDesc& b = desc.outputs[output];
  if (kernel.input_layouts[input].Bytes(a.shape, a.dtype) !=
      kernel.output_layouts[output].Bytes(b.shape, b.dtype)) {
    return Internal("the kernel offers an input of another size for its output");
  }
  return OkStatus();
}

}  // namespace

Result<Tensor> MakeInput(const SampleInput& input, int index) {
  const int64_t n = input.shape.num_elements();
  LS_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(input.dtype, input.shape));
  std::vector<double> values = input.values;
  if (values.empty() && n > 0) {
    // A walk that visits each of n places once.
    int64_t step = std::max<int64_t>(1, static_cast<int64_t>(0.618 * static_cast<double>(n)));
    while (std::gcd(step, n) != 1) {
      ++step;
    }
    const double low = input.dtype == DType::kUInt8 ? std::max(input.low, 0.0) : input.low;
    const bool whole = !IsFloating(input.dtype);
    const double high = input.dtype == DType::kBool ? low + 1.0 : input.high;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t place = (i * step + index) % n;
      if (input.dtype == DType::kBool) {
        values.push_back(static_cast<double>(place % 2));
      } else if (whole) {
        const auto choices = static_cast<int64_t>(high - low) + 1;
        values.push_back(low + static_cast<double>(place % choices));
      } else {
        // Never at the ends or the middle of the range, and different for each input.
        const double part = static_cast<double>(place) + 0.37 + 0.05 * (index % 10);
        values.push_back(low + (high - low) * part / static_cast<double>(n));
      }
    }
  }
  if (static_cast<int64_t>(values.size()) != n) {
    return InvalidArgument(fmt::format("a sample gives {} values for the shape {}", values.size(),
                                       input.shape.ToString()));
  }
  ConvertElements(DType::kFloat64, values.data(), input.dtype, tensor.data(), n);
  return tensor;
}

Result<Node*> MakeNode(Graph& graph, std::string_view op, std::span<const TensorType> inputs,
                       const AttrMap& attrs) {
  const OpDef* def = graph.catalog().Find(op);
  if (def == nullptr) {
    return NotFound(fmt::format("there is no op '{}'", op));
  }
  NodeSpec spec{.name = graph.UniqueName(op), .op = std::string(op), .attrs = attrs};
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool written = def->Writes(static_cast<int>(i));
    LS_ASSIGN_OR_RETURN(
        Node * source,
        graph.AddNode({.name = graph.UniqueName("input"),
                       .op = written ? "Variable" : "Placeholder",
                       .attrs = {{"dtype", inputs[i].dtype}, {"shape", inputs[i].shape}}}));
    spec.inputs.push_back(source->output());
  }
  return graph.AddNode(std::move(spec));
}

Result<std::vector<TensorType>> InferOutputs(const Node& node, std::span<const TensorType> inputs) {
  InferContext ctx(node.attrs, inputs);
  LS_TRY(node.op->infer(ctx).With(node.Describe()));
  return ctx.TakeOutputs();
}

Result<NodeResult> RunKernel(const Node& node, std::span<const Tensor> inputs,
                             const RunOptions& options) {
  if (node.op->cpu == nullptr) {
    return Unimplemented(fmt::format("{} has no kernel", node.Describe()));
  }
  LS_ASSIGN_OR_RETURN(Descriptions desc, Describe(node, inputs, options.layout));
  Result<Kernel> made = node.op->cpu({node, desc.inputs, desc.outputs, options.threads});
  if (!made.ok()) {
    return made.status().With(node.Describe());
  }
  Kernel kernel = std::move(*made);
  LS_TRY(Complete(kernel, inputs.size(), desc.outputs.size()).With(node.Describe()));

  std::vector<Storage> storages;
  storages.reserve(inputs.size() + desc.outputs.size() + 1);
  std::vector<void*> input_pointers;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (node.op->UsesShapeOnly(static_cast<int>(i))) {
      input_pointers.push_back(nullptr);
      continue;
    }
    storages.push_back(Pack(inputs[i], kernel.input_layouts[i]));
    input_pointers.push_back(storages.back().data);
  }
  std::vector<void*> output_pointers;
  for (size_t o = 0; o < desc.outputs.size(); ++o) {
    LS_TRY(CheckInPlace(kernel, desc, o).With(node.Describe()));
    const int shared = kernel.alias[o] != Kernel::kNone ? kernel.alias[o]
                       : options.in_place               ? kernel.in_place[o]
                                                        : Kernel::kNone;
    if (shared != Kernel::kNone) {
      output_pointers.push_back(input_pointers[static_cast<size_t>(shared)]);
      continue;
    }
    const TensorDesc& output = desc.outputs[o];
    storages.emplace_back(kernel.output_layouts[o].Bytes(output.shape, output.dtype));
    output_pointers.push_back(storages.back().data);
  }
  const Storage& scratch = storages.emplace_back(kernel.scratch_bytes);
  if (kernel.run) {
    LS_TRY(kernel.run({input_pointers.data(), output_pointers.data(), scratch.data, &options.step})
               .With(node.Describe()));
  }
  if (!std::all_of(storages.begin(), storages.end(), [](const Storage& s) { return s.intact(); })) {
    return Internal(fmt::format("{} wrote behind the end of a buffer", node.Describe()));
  }
  NodeResult result;
  for (size_t o = 0; o < desc.outputs.size(); ++o) {
    LS_ASSIGN_OR_RETURN(Tensor output, Unpack(static_cast<const char*>(output_pointers[o]),
                                              desc.output_types[o], kernel.output_layouts[o]));
    result.outputs.push_back(std::move(output));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    result.variables.emplace_back();
    if (node.op->Writes(static_cast<int>(i))) {
      LS_ASSIGN_OR_RETURN(result.variables.back(),
                          Unpack(static_cast<const char*>(input_pointers[i]),
                                 {inputs[i].dtype(), inputs[i].shape()}, kernel.input_layouts[i]));
    }
  }
  return result;
}

Result<ReferenceResult> RunReference(const Node& node, std::span<const DoubleTensor> inputs,
                                     const StepInfo& step) {
  if (node.op->reference == nullptr) {
    return Unimplemented(fmt::format("{} has no reference", node.Describe()));
  }
  std::vector<TensorType> types;
  std::vector<Shape> input_shapes;
  std::vector<std::vector<double>> input_values;
  for (size_t i = 0; i < inputs.size(); ++i) {
    types.push_back({inputs[i].dtype, inputs[i].shape, node.inputs[i].type().is_variable});
    input_shapes.push_back(inputs[i].shape);
    input_values.push_back(inputs[i].values);
  }
  LS_ASSIGN_OR_RETURN(const std::vector<TensorType> output_types, InferOutputs(node, types));
  std::vector<Shape> output_shapes;
  std::vector<DType> output_dtypes;
  std::vector<std::vector<double>> outputs;
  for (const TensorType& type : output_types) {
    output_shapes.push_back(type.shape);
    output_dtypes.push_back(type.dtype);
    outputs.emplace_back(static_cast<size_t>(type.shape.num_elements()));
  }
  std::vector<std::vector<double>> variables = input_values;
  LS_TRY(node.op
             ->reference({node, input_shapes, input_values, output_shapes, outputs, variables, step,
                          output_dtypes})
             .With(node.Describe()));
  ReferenceResult result;
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (outputs[o].size() != static_cast<size_t>(output_shapes[o].num_elements())) {
      return Internal(
          fmt::format("{}: the reference changed the size of output {}", node.Describe(), o));
    }
    result.outputs.push_back({output_dtypes[o], output_shapes[o], std::move(outputs[o])});
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    result.variables.push_back({inputs[i].dtype, inputs[i].shape, std::move(variables[i])});
  }
  return result;
}

DoubleTensor ToDoubleTensor(const Tensor& tensor) {
  return {tensor.dtype(), tensor.shape(), tensor.ToDoubles()};
}

Result<Tensor> FromDoubleTensor(const DoubleTensor& tensor) {
  LS_ASSIGN_OR_RETURN(Tensor result, Tensor::Allocate(tensor.dtype, tensor.shape));
  ConvertElements(DType::kFloat64, tensor.values.data(), tensor.dtype, result.data(),
                  result.num_elements());
  return result;
}

Result<std::vector<Tensor>> RunOp(std::string_view op, std::span<const Tensor> inputs,
                                  const AttrMap& attrs, const RunOptions& options) {
  Graph graph(Catalog());
  std::vector<TensorType> types;
  for (const Tensor& input : inputs) {
    types.push_back({input.dtype(), input.shape()});
  }
  LS_ASSIGN_OR_RETURN(Node * node, MakeNode(graph, op, types, attrs));
  LS_ASSIGN_OR_RETURN(NodeResult result, RunKernel(*node, inputs, options));
  return std::move(result.outputs);
}

}  // namespace lockstep::op::testing
