#include "lockstep/op/sparse_apply.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "lockstep/op/internal/apply.h"
#include "lockstep/op/internal/apply_attrs.h"
#include "lockstep/op/internal/row_indices.h"
#include "lockstep/op/internal/update_rules.h"

namespace lockstep::op {
namespace {

template <class Rule>
constexpr ApplyInputs kInputs = {.slots = Rule::kSlots, .uses_step = Rule::kUsesStep};

int IndicesOf(const ApplyInputs& at) {
  return at.grad();
}

int ValuesOf(const ApplyInputs& at) {
  return at.grad() + 1;
}

template <class Rule, Status (*CheckAttrs)(const AttrMap&)>
Status Infer(InferContext& ctx) {
  constexpr ApplyInputs kAt = kInputs<Rule>;
  const int indices = IndicesOf(kAt);
  const int values = ValuesOf(kAt);
  LS_TRY(CheckAttrs(ctx.attrs()));
  LS_TRY(ctx.ExpectMinRank(0, 1));
  LS_TRY(ExpectIndexType(ctx, indices));
  LS_TRY(ctx.ExpectRank(indices, 1));
  LS_TRY(ctx.ExpectDType(values, DType::kFloat32));
  if (ctx.shape(0)[0] == 0 && ctx.shape(indices)[0] > 0) {
    return InvalidArgument(fmt::format("input 0 has the shape {}: there are no rows to update",
                                       ctx.shape(0).ToString()));
  }
  Shape expected = ctx.shape(0);
  expected.set_dim(0, ctx.shape(indices)[0]);
  if (!ctx.shape(values).CompatibleWith(expected)) {
    return InvalidArgument(
        fmt::format("input {} has the shape {}, expected {}: rows like those of "
                    "the variable, one for each index",
                    values, ctx.shape(values).ToString(), expected.ToString()));
  }
  return InferApplyState(ctx, kAt);
}

// The rows of one step: `size` elements each.
struct Rows {
  int64_t count = 0;
  int64_t size = 1;
};

Rows RowsOf(const Shape& values) {
  Rows rows{values[0], 1};
  for (int i = 1; i < values.rank(); ++i) {
    rows.size *= values[i];
  }
  return rows;
}

// Calls update(row, its gradient) for every row that is named. order [count] and sum [size] are
// scratch memory.
template <class T, class IndexOf, class Update>
void ForEachRow(const Rows& rows, const T* values, int64_t* order, T* sum, const IndexOf& index_of,
                const Update& update) {
  std::iota(order, order + rows.count, int64_t{0});
  std::sort(order, order + rows.count, [&](int64_t a, int64_t b) {
    const int64_t row_a = index_of(a);
    const int64_t row_b = index_of(b);
    return row_a != row_b ? row_a < row_b : a < b;
  });
  for (int64_t i = 0; i < rows.count;) {
    const int64_t row = index_of(order[i]);
    const T* gradient = values + order[i] * rows.size;
    const int64_t first = i++;
    for (; i < rows.count && index_of(order[i]) == row; ++i) {
      const T* more = values + order[i] * rows.size;
      for (int64_t c = 0; c < rows.size; ++c) {
        sum[c] = (i == first + 1 ? gradient[c] : sum[c]) + more[c];
      }
    }
    update(row, i == first + 1 ? gradient : sum);
  }
}

// Updates the row that starts at element `start`.
template <class Rule, class T, size_t... Slot>
void UpdateRow(const Rule& rule, const GradientOptions& gradient, const ApplyScalars& scalars,
               std::array<T*, 1 + sizeof...(Slot)> state, int64_t size, const T* grad,
               std::index_sequence<Slot...> slots) {
  const auto step = rule.template At<T>(scalars.lr, scalars.step);
  UpdateElements<T>(step, static_cast<T>(gradient.grad_scale), static_cast<T>(gradient.l2), state,
                    grad, 0, size, slots);
}

template <class Rule>
Result<Kernel> Cpu(const KernelRequest& request) {
  constexpr ApplyInputs kAt = kInputs<Rule>;
  const auto desc = [&](int i) -> const TensorDesc& {
    return request.inputs[static_cast<size_t>(i)];
  };
  const Rows rows = RowsOf(desc(ValuesOf(kAt)).shape);
  Kernel kernel;
  kernel.alias = {0};
  kernel.scratch_bytes = static_cast<size_t>(rows.count) * sizeof(int64_t) +
                         static_cast<size_t>(rows.size) * sizeof(float);
  kernel.run = [rule = Rule(request.node.attrs), gradient = GradientOf(request.node.attrs), rows,
                table = request.inputs[0].shape[0], index_dtype = desc(IndicesOf(kAt)).dtype,
                step_dtype = desc(kInputs<Rule>.step()).dtype](const KernelArgs& args) -> Status {
    const ApplyInputs at = kInputs<Rule>;
    LS_ASSIGN_OR_RETURN(const ApplyScalars scalars, ReadApplyScalars(args, at, step_dtype));
    const void* indices = args.inputs[IndicesOf(at)];
    LS_TRY(CheckIndices(indices, index_dtype, rows.count, table));
    auto* order = static_cast<int64_t*>(args.scratch);
    auto* sum = reinterpret_cast<float*>(order + rows.count);
    ForEachRow(
        rows, args.in<float>(ValuesOf(at)), order, sum,
        [&](int64_t i) { return IndexAt(indices, index_dtype, i); },
        [&](int64_t row, const float* grad) {
          std::array<float*, 1 + Rule::kSlots> state{};
          for (size_t i = 0; i < state.size(); ++i) {
            state[i] = args.variable<float>(static_cast<int>(i)) + row * rows.size;
          }
          UpdateRow(rule, gradient, scalars, state, rows.size, grad,
                    std::make_index_sequence<Rule::kSlots>());
        });
    return OkStatus();
  };
  return kernel;
}

template <class Rule>
Status Reference(const ReferenceContext& ctx) {
  constexpr ApplyInputs kAt = kInputs<Rule>;
  LS_ASSIGN_OR_RETURN(const ApplyScalars scalars, ReadApplyScalars(ctx, kAt));
  const std::vector<double>& indices = ctx.inputs[static_cast<size_t>(IndicesOf(kAt))];
  const std::vector<double>& values = ctx.inputs[static_cast<size_t>(ValuesOf(kAt))];
  LS_TRY(CheckIndices(indices, ctx.input_shapes[0][0]));
  const auto size =
      static_cast<size_t>(RowsOf(ctx.input_shapes[static_cast<size_t>(ValuesOf(kAt))]).size);
  const Rule rule(ctx.node.attrs);
  for (size_t row = 0; row < static_cast<size_t>(ctx.input_shapes[0][0]); ++row) {
    std::vector<double> grad(size);
    bool named = false;
    for (size_t i = 0; i < indices.size(); ++i) {
      if (indices[i] == static_cast<double>(row)) {
        named = true;
        for (size_t c = 0; c < size; ++c) {
          grad[c] += values[i * size + c];
        }
      }
    }
    if (named) {
      std::array<double*, 1 + Rule::kSlots> state;
      for (size_t i = 0; i < state.size(); ++i) {
        state[i] = ctx.variables[i].data() + row * size;
      }
      UpdateRow(rule, GradientOf(ctx.node.attrs), scalars, state, static_cast<int64_t>(size),
                static_cast<const double*>(grad.data()), std::make_index_sequence<Rule::kSlots>());
    }
  }
  ctx.outputs[0] = ctx.variables[0];
  return OkStatus();
}

template <class Rule>
std::vector<Sample> Samples() {
  const auto sample = [](std::string name, std::vector<double> indices, DType dtype) {
    Sample result{.name = std::move(name),
                  .inputs = {{.shape = {6, 5}}},
                  .attrs = {{"l2", 0.01}, {"grad_scale", 0.5}},
                  .check_gradient = false};
    for (int i = 0; i < Rule::kSlots; ++i) {
      result.inputs.push_back({.shape = {6, 5}, .low = 0.1, .high = 1.0});
    }
    if (Rule::kUsesStep) {
      result.inputs.push_back({.shape = {}, .dtype = DType::kInt64, .values = {3}});
    }
    const auto count = static_cast<int64_t>(indices.size());
    result.inputs.push_back({.shape = {}, .values = {0.1}});
    result.inputs.push_back({.shape = {count}, .dtype = dtype, .values = std::move(indices)});
    result.inputs.push_back({.shape = {count, 5}});
    return result;
  };
  return {sample("repeated", {4, 1, 4, 0, 4}, DType::kInt64),
          sample("int32", {2, 5, 2}, DType::kInt32), sample("nothing", {}, DType::kInt64)};
}

template <class Rule, Status (*CheckAttrs)(const AttrMap&)>
OpDef SparseDef(std::string_view name, std::string_view summary, std::vector<AttrDef> attrs) {
  constexpr ApplyInputs kAt = kInputs<Rule>;
  return {.name = name,
          .summary = summary,
          .min_inputs = kAt.grad() + 2,
          .max_inputs = kAt.grad() + 2,
          .attrs = std::move(attrs),
          .infer = Infer<Rule, CheckAttrs>,
          .cpu = Cpu<Rule>,
          .reference = Reference<Rule>,
          .samples = Samples<Rule>,
          .written_inputs = (1U << kAt.written()) - 1U,
          .stateful = true};
}

}  // namespace

OpDef SparseApplyGradientDescentDef() {
  return SparseDef<GradientDescentRule, CheckGradientAttrs>(
      "SparseApplyGradientDescent", "gradient descent on rows", GradientAttrDefs());
}

OpDef SparseApplyMomentumDef() {
  return SparseDef<MomentumRule, CheckMomentumAttrs>("SparseApplyMomentum", "momentum on rows",
                                                     MomentumAttrDefs());
}

OpDef SparseApplyAdamDef() {
  return SparseDef<AdamRule, CheckAdamAttrs>("SparseApplyAdam", "lazy Adam on rows",
                                             AdamAttrDefs());
}

OpDef SparseApplyAdagradDef() {
  return SparseDef<AdagradRule, CheckAdagradAttrs>("SparseApplyAdagrad", "Adagrad on rows",
                                                   AdagradAttrDefs());
}

Value SparseApplyGradientDescent(BuildContext ctx, Value var, Value lr, Value indices, Value values,
                                 const GradientOptions& gradient) {
  return ctx.Add("SparseApplyGradientDescent", {var, lr, indices, values}, GradientAttrs(gradient));
}

Value SparseApplyMomentum(BuildContext ctx, Value var, Value accum, Value lr, Value indices,
                          Value values, const MomentumOptions& options) {
  return ctx.Add("SparseApplyMomentum", {var, accum, lr, indices, values}, MomentumAttrs(options));
}

Value SparseApplyAdam(BuildContext ctx, Value var, const AdamState& state, Value lr, Value indices,
                      Value values, const AdamOptions& options) {
  return ctx.Add("SparseApplyAdam", {var, state.m, state.v, state.step, lr, indices, values},
                 AdamAttrs(options));
}

Value SparseApplyAdagrad(BuildContext ctx, Value var, Value accum, Value lr, Value indices,
                         Value values, const AdagradOptions& options) {
  return ctx.Add("SparseApplyAdagrad", {var, accum, lr, indices, values}, AdagradAttrs(options));
}

}  // namespace lockstep::op
