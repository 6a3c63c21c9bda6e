#include "lockstep/op/matmul.h"

#include <fmt/format.h>

#include "lockstep/graph/grad_context.h"
#include "lockstep/graph/op_def.h"
#include "lockstep/op/broadcast_like.h"
#include "lockstep/op/internal/matmul_kernel.h"

namespace lockstep::op {
namespace {

Result<Shape> ProductShape(const Shape& a, const Shape& b, bool transpose_a, bool transpose_b) {
  const int64_t m = a.dim(transpose_a ? -1 : -2);
  const int64_t n = b.dim(transpose_b ? -2 : -1);
  const int64_t k_a = a.dim(transpose_a ? -2 : -1);
  const int64_t k_b = b.dim(transpose_b ? -1 : -2);
  if (k_a != k_b && k_a != Shape::kUnknownDim && k_b != Shape::kUnknownDim) {
    return InvalidArgument(fmt::format("the inner dimensions of {}{} and {}{} differ: {} and {}",
                                       a.ToString(), transpose_a ? " (transposed)" : "",
                                       b.ToString(), transpose_b ? " (transposed)" : "", k_a, k_b));
  }
  const auto batch = [](const Shape& shape) {
    return Shape(shape.dims().first(static_cast<size_t>(shape.rank() - 2)));
  };
  LS_ASSIGN_OR_RETURN(Shape result, BroadcastShapes(batch(a), batch(b)));
  result.Append(m);
  result.Append(n);
  return result;
}

Status Infer(InferContext& ctx) {
  LS_TRY(ctx.ExpectMinRank(0, 2));
  LS_TRY(ctx.ExpectMinRank(1, 2));
  LS_TRY(ctx.ExpectFloating(0));
  LS_TRY(ctx.ExpectSameDType(0, 1));
  LS_ASSIGN_OR_RETURN(const Shape y,
                      ProductShape(ctx.shape(0), ctx.shape(1), ctx.attrs().GetBool("transpose_a"),
                                   ctx.attrs().GetBool("transpose_b")));
  ctx.AddOutput(ctx.dtype(0), y);
  return OkStatus();
}

// Sums the gradient over the batches that `like` was broadcast along.
Value SumBatches(BuildContext ctx, Value gradient, Value like) {
  if (!gradient.valid() || !like.valid()) {
    return {};
  }
  const bool no_batch = gradient.shape().rank() == 2 && like.shape().rank() == 2;
  const bool same = gradient.shape().fully_known() && gradient.shape() == like.shape();
  return no_batch || same ? gradient : SumLike(ctx, gradient, like);
}

Status Grad(GradContext& ctx) {
  const bool ta = ctx.attrs().GetBool("transpose_a");
  const bool tb = ctx.attrs().GetBool("transpose_b");
  const Value a = ctx.input(0);
  const Value b = ctx.input(1);
  const Value dy = ctx.dy();
  const Value da = ta ? MatMul(ctx, b, dy, tb, true) : MatMul(ctx, dy, b, false, !tb);
  const Value db = tb ? MatMul(ctx, dy, a, true, ta) : MatMul(ctx, a, dy, !ta, false);
  ctx.SetGrad(0, SumBatches(ctx, da, a));
  ctx.SetGrad(1, SumBatches(ctx, db, b));
  return OkStatus();
}

internal::MatMulSpec SpecOf(const KernelRequest& request) {
  return {.a = request.inputs[0].shape,
          .b = request.inputs[1].shape,
          .y = request.outputs[0].shape,
          .transpose_a = request.node.attrs.GetBool("transpose_a"),
          .transpose_b = request.node.attrs.GetBool("transpose_b"),
          .dtype = request.inputs[0].dtype,
          .threads = request.threads,
          .a_layout = request.inputs[0].layout,
          .b_layout = request.inputs[1].layout,
          .b_flexible = request.inputs[1].flexible};
}

Result<Kernel> Cpu(const KernelRequest& request) {
  return internal::MakeMatMulKernel(SpecOf(request));
}

// Offset of the matrix that batch `batch` of the result reads.
int64_t BatchOffset(const Shape& operand, const Shape& result, int64_t batch) {
  int64_t offset = 0;
  int64_t stride = operand.dim(-1) * operand.dim(-2);
  for (int i = 3; i <= result.rank(); ++i) {
    const int64_t index = batch % result.dim(-i);
    batch /= result.dim(-i);
    if (i <= operand.rank()) {
      offset += operand.dim(-i) == 1 ? 0 : index * stride;
      stride *= operand.dim(-i);
    }
  }
  return offset;
}

Status Reference(const ReferenceContext& ctx) {
  const bool ta = ctx.node.attrs.GetBool("transpose_a");
  const bool tb = ctx.node.attrs.GetBool("transpose_b");
  const Shape& y = ctx.output_shapes[0];
  const int64_t m = y.dim(-2);
  const int64_t n = y.dim(-1);
  const int64_t k = ctx.input_shapes[0].dim(ta ? -2 : -1);
  const int64_t batches = m * n == 0 ? 0 : y.num_elements() / (m * n);
  for (int64_t batch = 0; batch < batches; ++batch) {
    const double* a = ctx.inputs[0].data() + BatchOffset(ctx.input_shapes[0], y, batch);
    const double* b = ctx.inputs[1].data() + BatchOffset(ctx.input_shapes[1], y, batch);
    double* out = ctx.outputs[0].data() + batch * m * n;
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t p = 0; p < k; ++p) {
        const double left = ta ? a[p * m + i] : a[i * k + p];
        for (int64_t j = 0; j < n; ++j) {
          out[i * n + j] += left * (tb ? b[j * k + p] : b[p * n + j]);
        }
      }
    }
  }
  return OkStatus();
}

AttrMap Transposes(bool a, bool b) {
  return {{"transpose_a", a}, {"transpose_b", b}};
}

std::vector<Sample> Samples() {
  std::vector<Sample> samples = {
      {.name = "plain", .inputs = {{.shape = {3, 5}}, {.shape = {5, 4}}}},
      {.name = "a_transposed",
       .inputs = {{.shape = {5, 3}}, {.shape = {5, 4}}},
       .attrs = Transposes(true, false)},
      {.name = "b_transposed",
       .inputs = {{.shape = {3, 5}}, {.shape = {4, 5}}},
       .attrs = Transposes(false, true)},
      {.name = "both_transposed",
       .inputs = {{.shape = {5, 3}}, {.shape = {4, 5}}},
       .attrs = Transposes(true, true)},
      {.name = "one_column", .inputs = {{.shape = {7, 9}}, {.shape = {9, 1}}}},
      {.name = "no_terms", .inputs = {{.shape = {3, 0}}, {.shape = {0, 4}}}},
      {.name = "batched", .inputs = {{.shape = {2, 3, 4}}, {.shape = {2, 4, 2}}}},
      {.name = "batched_broadcasting",
       .inputs = {{.shape = {3, 1, 2, 4}}, {.shape = {2, 5, 4}}},
       .attrs = Transposes(false, true)},
      {.name = "batches_of_one_matrix", .inputs = {{.shape = {2, 3, 4}}, {.shape = {4, 5}}}},
      {.name = "bfloat16",
       .inputs = {{.shape = {4, 8}, .dtype = DType::kBFloat16},
                  {.shape = {8, 4}, .dtype = DType::kBFloat16}},
       .tolerance = 2e-2,
       .check_gradient = false},
  };
  // More terms than one accumulator or one block of the cache takes.
  samples.push_back({.name = "few_columns_long",
                     .inputs = {{.shape = {3, 1100}}, {.shape = {1100, 9}}},
                     .check_gradient = false});
  samples.push_back({.name = "few_columns_a_transposed_long",
                     .inputs = {{.shape = {600, 35}}, {.shape = {600, 3}}},
                     .attrs = Transposes(true, false),
                     .check_gradient = false});
  // Sizes around the widths of the kernels for few columns, in every transposition.
  for (const int64_t n : {10, 13, 16}) {
    samples.push_back({.name = fmt::format("few_columns_{}", n),
                       .inputs = {{.shape = {11, 37}}, {.shape = {37, n}}},
                       .check_gradient = false});
    samples.push_back({.name = fmt::format("few_columns_a_transposed_{}", n),
                       .inputs = {{.shape = {37, 45}}, {.shape = {37, n}}},
                       .attrs = Transposes(true, false),
                       .check_gradient = false});
    samples.push_back({.name = fmt::format("few_columns_b_transposed_{}", n),
                       .inputs = {{.shape = {11, 37}}, {.shape = {n, 37}}},
                       .attrs = Transposes(false, true),
                       .check_gradient = false});
    samples.push_back({.name = fmt::format("few_rows_a_transposed_{}", n),
                       .inputs = {{.shape = {37, n}}, {.shape = {37, 45}}},
                       .attrs = Transposes(true, false),
                       .check_gradient = false});
    samples.push_back({.name = fmt::format("few_terms_{}", n),
                       .inputs = {{.shape = {11, n}}, {.shape = {37, n}}},
                       .attrs = Transposes(false, true),
                       .check_gradient = false});
  }
  return samples;
}

Status FusedInfer(InferContext& ctx) {
  LS_TRY(ctx.ExpectRank(0, 2));
  LS_TRY(ctx.ExpectRank(1, 2));
  LS_TRY(Infer(ctx));
  LS_TRY(ctx.ExpectRank(2, 1));
  LS_TRY(ctx.ExpectSameDType(0, 2));
  const int64_t n = ctx.shape(1).dim(ctx.attrs().GetBool("transpose_b") ? -2 : -1);
  if (!ctx.shape(2).CompatibleWith(Shape{n})) {
    return InvalidArgument(
        fmt::format("the bias has the shape {}, expected [{}]", ctx.shape(2).ToString(), n));
  }
  const std::string& activation = ctx.attrs().GetString("activation");
  if (activation != "none" && activation != "relu") {
    return InvalidArgument(fmt::format("activation is '{}', allowed: none, relu", activation));
  }
  return OkStatus();
}

Result<Kernel> FusedCpu(const KernelRequest& request) {
  internal::MatMulSpec spec = SpecOf(request);
  spec.bias = true;
  spec.relu = request.node.attrs.GetString("activation") == "relu";
  return internal::MakeMatMulKernel(spec);
}

Status FusedReference(const ReferenceContext& ctx) {
  LS_TRY(Reference(ctx));
  const bool relu = ctx.node.attrs.GetString("activation") == "relu";
  const size_t n = ctx.inputs[2].size();
  for (size_t i = 0; i < ctx.outputs[0].size(); ++i) {
    double& y = ctx.outputs[0][i];
    y += ctx.inputs[2][i % n];
    y = relu && y < 0.0 ? 0.0 : y;
  }
  return OkStatus();
}

std::vector<Sample> FusedSamples() {
  std::vector<Sample> samples = {
      {.name = "bias",
       .inputs = {{.shape = {3, 5}}, {.shape = {5, 20}}, {.shape = {20}}},
       .check_gradient = false},
      {.name = "relu_few_columns",
       .inputs = {{.shape = {13, 30}}, {.shape = {30, 10}}, {.shape = {10}}},
       .attrs = {{"activation", std::string("relu")}},
       .check_gradient = false},
      {.name = "relu_transposed",
       .inputs = {{.shape = {5, 3}}, {.shape = {20, 5}}, {.shape = {20}}},
       .attrs = {{"transpose_a", true}, {"transpose_b", true}, {"activation", std::string("relu")}},
       .check_gradient = false},
      {.name = "no_terms",
       .inputs = {{.shape = {3, 0}}, {.shape = {0, 4}}, {.shape = {4}}},
       .attrs = {{"activation", std::string("relu")}},
       .check_gradient = false},
  };
  return samples;
}

}  // namespace

OpDef MatMulDef() {
  return {
      .name = "MatMul",
      .summary = "matrix product, with broadcasting batch dimensions",
      .min_inputs = 2,
      .max_inputs = 2,
      .attrs = {{"transpose_a", AttrType::kBool, false}, {"transpose_b", AttrType::kBool, false}},
      .infer = Infer,
      .grad = Grad,
      .cpu = Cpu,
      .reference = Reference,
      .samples = Samples};
}

OpDef FusedMatMulDef() {
  return {.name = "FusedMatMul",
          .summary = "activation(a * b + bias)",
          .min_inputs = 3,
          .max_inputs = 3,
          .attrs = {{"transpose_a", AttrType::kBool, false},
                    {"transpose_b", AttrType::kBool, false},
                    {"activation", AttrType::kString, std::string("none")}},
          .infer = FusedInfer,
          .cpu = FusedCpu,
          .reference = FusedReference,
          .samples = FusedSamples,
          .internal = true};
}

Value MatMul(BuildContext ctx, Value a, Value b, bool transpose_a, bool transpose_b) {
  return ctx.Add("MatMul", {a, b}, {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}});
}

}  // namespace lockstep::op
