#include "lockstep/op/transpose.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "lockstep/graph/grad_context.h"
#include "lockstep/graph/op_def.h"
#include "lockstep/op/internal/strided_copy.h"

namespace lockstep::op {
namespace {

Result<std::vector<int>> PermOf(const AttrMap& attrs, int rank) {
  const std::vector<int64_t>& given = attrs.GetInts("perm");
  std::vector<int> perm(static_cast<size_t>(rank));
  if (given.empty()) {
    std::iota(perm.rbegin(), perm.rend(), 0);
    return perm;
  }
  if (given.size() != perm.size()) {
    return InvalidArgument(fmt::format("the attribute 'perm' has {} axes, but input 0 has rank {}",
                                       given.size(), rank));
  }
  std::vector<bool> seen(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) {
    LS_ASSIGN_OR_RETURN(perm[i], NormalizeAxis(given[i], rank));
    if (seen[static_cast<size_t>(perm[i])]) {
      return InvalidArgument(fmt::format("the attribute 'perm' names axis {} twice", perm[i]));
    }
    seen[static_cast<size_t>(perm[i])] = true;
  }
  return perm;
}

Status Infer(InferContext& ctx) {
  LS_ASSIGN_OR_RETURN(const std::vector<int> perm, PermOf(ctx.attrs(), ctx.shape(0).rank()));
  Shape shape;
  for (const int axis : perm) {
    shape.Append(ctx.shape(0)[axis]);
  }
  ctx.AddOutput(ctx.dtype(0), shape);
  return OkStatus();
}

Status Gradient(GradContext& ctx) {
  LS_ASSIGN_OR_RETURN(const std::vector<int> perm,
                      PermOf(ctx.attrs(), ctx.input(0).shape().rank()));
  std::vector<int64_t> inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) {
    inverse[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  }
  ctx.SetGrad(0, Transpose(ctx, ctx.dy(), std::move(inverse)));
  return OkStatus();
}

Result<StridedCopy> CopyOf(const Node& node, const Shape& shape, size_t element_size) {
  LS_ASSIGN_OR_RETURN(const std::vector<int> perm, PermOf(node.attrs, shape.rank()));
  const std::vector<int64_t> strides = RowMajorStrides(shape);
  std::vector<StridedCopy::Dim> dims(perm.size());
  int64_t to = 1;
  for (size_t i = perm.size(); i-- > 0;) {
    const int64_t size = shape[perm[i]];
    dims[i] = {size, strides[static_cast<size_t>(perm[i])], to};
    to *= size;
  }
  return StridedCopy(dims, element_size);
}

Result<Kernel> Cpu(const KernelRequest& request) {
  const TensorDesc& x = request.inputs[0];
  LS_ASSIGN_OR_RETURN(const StridedCopy copy, CopyOf(request.node, x.shape, DTypeSize(x.dtype)));
  Kernel kernel;
  kernel.run = [copy, threads = request.threads](const KernelArgs& args) {
    copy.Run(threads, args.inputs[0], args.outputs[0]);
    return OkStatus();
  };
  return kernel;
}

// Walks over the output's indices.
Status Reference(const ReferenceContext& ctx) {
  const Shape& from = ctx.input_shapes[0];
  const Shape& to = ctx.output_shapes[0];
  LS_ASSIGN_OR_RETURN(const std::vector<int> perm, PermOf(ctx.node.attrs, from.rank()));
  const std::vector<int64_t> strides = RowMajorStrides(from);
  for (size_t i = 0; i < ctx.outputs[0].size(); ++i) {
    auto rest = static_cast<int64_t>(i);
    int64_t source = 0;
    for (int axis = to.rank() - 1; axis >= 0; --axis) {
      source += rest % to[axis] * strides[static_cast<size_t>(perm[static_cast<size_t>(axis)])];
      rest /= to[axis];
    }
    ctx.outputs[0][i] = ctx.inputs[0][static_cast<size_t>(source)];
  }
  return OkStatus();
}

std::vector<Sample> Samples() {
  const auto sample = [](std::string name, SampleInput x, std::vector<int64_t> perm) {
    return Sample{
        .name = std::move(name), .inputs = {std::move(x)}, .attrs = {{"perm", std::move(perm)}}};
  };
  std::vector<Sample> samples = {
      sample("matrix", {.shape = {3, 5}}, {}),
      sample("nhwc_to_nchw", {.shape = {2, 3, 4, 5}}, {0, 3, 1, 2}),
      sample("nchw_to_nhwc", {.shape = {2, 5, 3, 4}}, {0, 2, 3, 1}),
      sample("outer_only", {.shape = {2, 3, 4}}, {1, 0, 2}),
      sample("reverse", {.shape = {2, 3, 4}}, {-1, -2, -3}),
      sample("identity", {.shape = {2, 1, 3}}, {1, 0, 2}),
      sample("scalar", {.shape = {}}, {}),
      sample("bool", {.shape = {3, 4}, .dtype = DType::kBool, .low = 0, .high = 1}, {1, 0}),
      sample("int64", {.shape = {3, 4}, .dtype = DType::kInt64, .low = -9, .high = 9}, {1, 0}),
      sample("bfloat16", {.shape = {3, 4}, .dtype = DType::kBFloat16}, {1, 0}),
  };
  samples.push_back(sample("tiles", {.shape = {70, 3, 50}}, {2, 1, 0}));
  samples.back().check_gradient = false;
  return samples;
}

}  // namespace

OpDef TransposeDef() {
  return {.name = "Transpose",
          .summary = "the axes in another order",
          .min_inputs = 1,
          .max_inputs = 1,
          .attrs = {{"perm", AttrType::kInts, std::vector<int64_t>()}},
          .infer = Infer,
          .grad = Gradient,
          .cpu = Cpu,
          .reference = Reference,
          .samples = Samples};
}

Value Transpose(BuildContext ctx, Value x, std::vector<int64_t> perm) {
  return ctx.Add("Transpose", {x}, {{"perm", std::move(perm)}});
}

}  // namespace lockstep::op
