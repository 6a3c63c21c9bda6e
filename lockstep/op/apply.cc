#include "lockstep/op/apply.h"

#include "lockstep/op/internal/apply.h"
#include "lockstep/op/internal/apply_attrs.h"
#include "lockstep/op/internal/parallel.h"
#include "lockstep/op/internal/update_rules.h"

namespace lockstep::op {
namespace {

template <class Rule>
constexpr ApplyInputs kInputs = {.slots = Rule::kSlots, .uses_step = Rule::kUsesStep};

template <class Rule, Status (*CheckAttrs)(const AttrMap&)>
Status Infer(InferContext& ctx) {
  LS_TRY(CheckAttrs(ctx.attrs()));
  return InferApply(ctx, kInputs<Rule>);
}

template <class Rule, class T, size_t... Slot>
void Update(const Rule& rule, const GradientOptions& gradient, const ApplyScalars& scalars,
            std::array<T*, 1 + sizeof...(Slot)> state, const T* grad, int64_t begin, int64_t end,
            std::index_sequence<Slot...> slots) {
  const auto step = rule.template At<T>(scalars.lr, scalars.step);
  UpdateElements<T>(step, static_cast<T>(gradient.grad_scale), static_cast<T>(gradient.l2), state,
                    grad, begin, end, slots);
}

template <class Rule>
Result<Kernel> Cpu(const KernelRequest& request) {
  const ApplyInputs at = kInputs<Rule>;
  Kernel kernel;
  const int64_t elements = PrepareApplyKernel(request, at, &kernel);
  const DType step_dtype = request.inputs[static_cast<size_t>(at.step())].dtype;
  kernel.run = [at, rule = Rule(request.node.attrs), gradient = GradientOf(request.node.attrs),
                elements, step_dtype, threads = request.threads](const KernelArgs& args) -> Status {
    LS_ASSIGN_OR_RETURN(const ApplyScalars scalars, ReadApplyScalars(args, at, step_dtype));
    std::array<float*, 1 + Rule::kSlots> state{};
    for (size_t i = 0; i < state.size(); ++i) {
      state[i] = args.variable<float>(static_cast<int>(i));
    }
    ParallelFor(threads, elements, kElementGrain, [&](int64_t begin, int64_t end) {
      Update<Rule, float>(rule, gradient, scalars, state, args.in<float>(at.grad()), begin, end,
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
  std::array<double*, 1 + Rule::kSlots> state;
  for (size_t i = 0; i < state.size(); ++i) {
    state[i] = ctx.variables[i].data();
  }
  const std::vector<double>& grad = ctx.inputs[static_cast<size_t>(kAt.grad())];
  Update<Rule, double>(Rule(ctx.node.attrs), GradientOf(ctx.node.attrs), scalars, state,
                       grad.data(), 0, static_cast<int64_t>(grad.size()),
                       std::make_index_sequence<Rule::kSlots>());
  ctx.outputs[0] = ctx.variables[0];
  return OkStatus();
}

// A variable and slots of 45 elements, [step], lr 0.1, a gradient. Slots that hold squares are not
// negative.
template <class Rule>
std::vector<SampleInput> SampleInputs(std::initializer_list<double> lowest_of_slots) {
  const Shape shape = {5, 9};
  std::vector<SampleInput> inputs = {{.shape = shape}};
  for (const double low : lowest_of_slots) {
    inputs.push_back({.shape = shape, .low = low, .high = 1.0});
  }
  if (Rule::kUsesStep) {
    inputs.push_back({.shape = {}, .dtype = DType::kInt64, .values = {3}});
  }
  inputs.push_back({.shape = {}, .values = {0.1}});
  inputs.push_back({.shape = shape});
  return inputs;
}

Sample UpdateSample(std::string name, std::vector<SampleInput> inputs, AttrMap attrs) {
  return {.name = std::move(name),
          .inputs = std::move(inputs),
          .attrs = std::move(attrs),
          .check_gradient = false};
}

std::vector<Sample> GradientDescentSamples() {
  const auto inputs = SampleInputs<GradientDescentRule>({});
  return {UpdateSample("plain", inputs, {}),
          UpdateSample("l2", inputs, {{"l2", 0.01}, {"grad_scale", 0.5}})};
}

std::vector<Sample> MomentumSamples() {
  const auto inputs = SampleInputs<MomentumRule>({-1.0});
  return {UpdateSample("plain", inputs, {}),
          UpdateSample("nesterov", inputs, {{"nesterov", true}, {"l2", 0.01}})};
}

std::vector<Sample> AdamSamples() {
  auto inputs = SampleInputs<AdamRule>({-1.0, 0.1});
  std::vector<Sample> samples = {
      UpdateSample("plain", inputs, {}),
      UpdateSample("decay", inputs, {{"weight_decay", 0.01}, {"l2", 0.01}}),
      UpdateSample("other_epsilon", inputs, {{"epsilon", 0.01}, {"epsilon_hat", false}})};
  inputs[3].dtype = DType::kFloat32;
  samples.push_back(UpdateSample("float_step", inputs, {}));
  return samples;
}

std::vector<Sample> RmsPropSamples() {
  const auto inputs = SampleInputs<RmsPropRule>({0.1, -1.0});
  return {UpdateSample("plain", inputs, {}),
          UpdateSample("momentum", inputs, {{"momentum", 0.5}, {"epsilon", 0.001}})};
}

std::vector<Sample> CenteredRmsPropSamples() {
  // Means small enough for the variance to stay away from 0.
  auto inputs = SampleInputs<CenteredRmsPropRule>({0.5, -1.0, -0.1});
  inputs[3].high = 0.1;
  return {UpdateSample("momentum", inputs, {{"momentum", 0.5}, {"epsilon", 0.001}})};
}

std::vector<Sample> AdagradSamples() {
  const auto inputs = SampleInputs<AdagradRule>({0.1});
  return {UpdateSample("plain", inputs, {}),
          UpdateSample("epsilon", inputs, {{"epsilon", 0.01}, {"l2", 0.01}})};
}

template <class Rule, Status (*CheckAttrs)(const AttrMap&)>
OpDef ApplyDef(std::string_view name, std::string_view summary, std::vector<AttrDef> attrs,
               SamplesFn samples) {
  constexpr ApplyInputs kAt = kInputs<Rule>;
  return {.name = name,
          .summary = summary,
          .min_inputs = kAt.grad() + 1,
          .max_inputs = kAt.grad() + 1,
          .attrs = std::move(attrs),
          .infer = Infer<Rule, CheckAttrs>,
          .cpu = Cpu<Rule>,
          .reference = Reference<Rule>,
          .samples = samples,
          .written_inputs = (1U << kAt.written()) - 1U,
          .stateful = true};
}

}  // namespace

OpDef ApplyGradientDescentDef() {
  return ApplyDef<GradientDescentRule, CheckGradientAttrs>(
      "ApplyGradientDescent", "var -= lr * g", GradientAttrDefs(), GradientDescentSamples);
}

OpDef ApplyMomentumDef() {
  return ApplyDef<MomentumRule, CheckMomentumAttrs>(
      "ApplyMomentum", "gradient descent with momentum", MomentumAttrDefs(), MomentumSamples);
}

OpDef ApplyAdamDef() {
  return ApplyDef<AdamRule, CheckAdamAttrs>("ApplyAdam", "Adam, with decoupled weight decay",
                                            AdamAttrDefs(), AdamSamples);
}

OpDef ApplyRMSPropDef() {
  return ApplyDef<RmsPropRule, CheckRmsPropAttrs>("ApplyRMSProp", "RMSProp with momentum",
                                                  RmsPropAttrDefs(), RmsPropSamples);
}

OpDef ApplyCenteredRMSPropDef() {
  return ApplyDef<CenteredRmsPropRule, CheckRmsPropAttrs>(
      "ApplyCenteredRMSProp", "RMSProp divided by the standard deviation", RmsPropAttrDefs(),
      CenteredRmsPropSamples);
}

OpDef ApplyAdagradDef() {
  return ApplyDef<AdagradRule, CheckAdagradAttrs>("ApplyAdagrad", "Adagrad", AdagradAttrDefs(),
                                                  AdagradSamples);
}

Value ApplyGradientDescent(BuildContext ctx, Value var, Value lr, Value grad,
                           const GradientOptions& gradient) {
  return ctx.Add("ApplyGradientDescent", {var, lr, grad}, GradientAttrs(gradient));
}

Value ApplyMomentum(BuildContext ctx, Value var, Value accum, Value lr, Value grad,
                    const MomentumOptions& options) {
  return ctx.Add("ApplyMomentum", {var, accum, lr, grad}, MomentumAttrs(options));
}

Value ApplyAdam(BuildContext ctx, Value var, Value m, Value v, Value step, Value lr, Value grad,
                const AdamOptions& options) {
  return ctx.Add("ApplyAdam", {var, m, v, step, lr, grad}, AdamAttrs(options));
}

Value ApplyRmsProp(BuildContext ctx, Value var, Value ms, Value mom, Value lr, Value grad,
                   const RmsPropOptions& options) {
  return ctx.Add("ApplyRMSProp", {var, ms, mom, lr, grad}, RmsPropAttrs(options));
}

Value ApplyCenteredRmsProp(BuildContext ctx, Value var, Value ms, Value mom, Value mg, Value lr,
                           Value grad, const RmsPropOptions& options) {
  return ctx.Add("ApplyCenteredRMSProp", {var, ms, mom, mg, lr, grad}, RmsPropAttrs(options));
}

Value ApplyAdagrad(BuildContext ctx, Value var, Value accum, Value lr, Value grad,
                   const AdagradOptions& options) {
  return ctx.Add("ApplyAdagrad", {var, accum, lr, grad}, AdagradAttrs(options));
}

}  // namespace lockstep::op
