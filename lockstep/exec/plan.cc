#include "lockstep/exec/plan.h"

#include <fmt/format.h>
#include <xmmintrin.h>

#include <algorithm>
#include <chrono>

#include "lockstep/exec/internal/kernel_selection.h"
#include "lockstep/exec/internal/memory_plan.h"
#include "lockstep/exec/internal/plan_transfers.h"
#include "lockstep/exec/internal/schedule.h"
#include "lockstep/exec/step_status.h"

namespace lockstep::exec {

namespace {

// Denormal numbers cost a hundred times as much as others and carry nothing that training needs:
// kernels treat them as zero. The caller's mode comes back afterwards.
class FlushDenormals {
 public:
  FlushDenormals() : saved_(_mm_getcsr()) { _mm_setcsr(saved_ | kFlushToZero | kDenormalsAreZero); }

  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

  ~FlushDenormals() { _mm_setcsr(saved_); }

 private:
  static constexpr unsigned kFlushToZero = 0x8000;
  static constexpr unsigned kDenormalsAreZero = 0x0040;
  unsigned saved_;
};

std::string LayoutsOf(const PlanGraph& plan, const PlanStep& step) {
  std::string text;
  for (const int output : step.outputs) {
    const TensorDesc& desc = plan.value(output).desc;
    text += fmt::format(" {} {} {};", DTypeName(desc.dtype), desc.shape.ToString(),
                        desc.layout.ToString());
  }
  return text;
}

}  // namespace

Plan::Plan(Token, Device& device) : device_(device) {}

Plan::~Plan() = default;

Result<std::unique_ptr<Plan>> Plan::Compile(pass::SpecializedGraph graph, VariableStore& store,
                                            Device& device) {
  auto plan = std::make_unique<Plan>(Token(), device);
  device.UseThreads();
  LS_ASSIGN_OR_RETURN(PlanGraph plan_graph, SelectKernels(graph, store, device.threads()));
  LS_ASSIGN_OR_RETURN(const Schedule schedule, ScheduleSteps(plan_graph));
  const MemoryPlan memory = PlanMemory(plan_graph, schedule.order);
  // No plan of this device writes a variable while it moves.
  const MutexLock lock(device.mutex());
  for (const PlanValue& value : plan_graph.values) {
    if (value.storage == Storage::kVariable && value.producer < 0) {
      Variable* variable = plan_graph.variables[static_cast<size_t>(value.external)];
      const bool only_initializes =
          schedule.initializes[static_cast<size_t>(value.external)] &&
          !schedule.needs_initialized[static_cast<size_t>(value.external)];
      if (!variable->settled && !value.desc.flexible && !only_initializes) {
        LS_TRY(Relayout(*variable, value.desc.layout));
        variable->settled = true;
      }
    }
  }
  plan->graph_ = std::move(graph.graph);
  plan->Emit(plan_graph, memory, schedule);
  return plan;
}

void Plan::Emit(PlanGraph& plan, const MemoryPlan& memory, const Schedule& schedule) {
  constants_ = std::move(plan.constants);
  feed_descs_ = plan.feeds;
  fetch_descs_ = plan.fetches;
  feeds_.resize(feed_descs_.size());
  fetches_.resize(fetch_descs_.size());
  variable_externals_.resize(plan.variables.size());
  stats_.arena_bytes = memory.arena_bytes;
  stats_.scratch_bytes = memory.scratch_bytes;
  for (size_t i = 0; i < plan.variables.size(); ++i) {
    variables_.push_back(
        {plan.variables[i], Layout(), schedule.needs_initialized[i], schedule.initializes[i]});
  }
  for (const PlanValue& value : plan.values) {
    if (value.storage == Storage::kVariable && value.producer < 0) {
      variables_[static_cast<size_t>(value.external)].layout = value.desc.layout;
    }
  }
  EmitTransfers(plan);
  for (const int index : schedule.order) {
    PlanStep& step = plan.steps[static_cast<size_t>(index)];
    if (!step.kernel.run && step.transfer == kNoTransfer) {
      continue;
    }
    calls_.push_back(MakeCall(plan, memory, step));
    const std::string& kind = calls_.back().kind;
    ++stats_.kernels;
    stats_.reorders += kind == "Reorder" || kind == "Convert" ? 1 : 0;
  }
  for (size_t i = 0; i < fetches_.size(); ++i) {
    // Patches come in the order of the calls.
    if (!fetches_[i].patches.empty()) {
      calls_[fetches_[i].patches.back().call].final_fetches.push_back(i);
    }
  }
}

void Plan::EmitTransfers(PlanGraph& plan) {
  if (!plan.has_transfers()) {
    return;
  }
  for (const TensorDesc& desc : plan.shared) {
    shared_.push_back({desc.dtype, desc.shape, Tensor(), {}});
  }
  received_.resize(plan.recvs.size());
  send_sources_.resize(plan.sends.size());
  for (const PlanStep& step : plan.steps) {
    if (step.transfer != kNoTransfer && step.outputs.empty()) {
      const auto send = static_cast<size_t>(step.transfer);
      const int shared = step.inputs.empty() ? -1 : plan.root_of(step.inputs[0]).external;
      send_sources_[send] = {shared, plan.sends[send].shape};
    }
  }
  transfers_ = std::make_unique<PlanTransfers>(std::move(plan.sends), std::move(plan.recvs));
}

Plan::Call Plan::MakeCall(const PlanGraph& plan, const MemoryPlan& memory, PlanStep& step) {
  Call made{step.node,          step.kind, LayoutsOf(plan, step), std::move(step.kernel.run), {},
            step.inputs.size(), nullptr,   step.transfer};
  for (const auto* ids : {&step.inputs, &step.outputs}) {
    for (const int id : *ids) {
      const Patch patch{calls_.size(), made.pointers.size()};
      made.pointers.push_back(nullptr);
      if (id == kNoValue) {
        continue;
      }
      const PlanValue& root = plan.root_of(id);
      const auto external = static_cast<size_t>(root.external);
      switch (root.storage) {
        case Storage::kArena:
          arena_patches_.emplace_back(patch, memory.offsets[static_cast<size_t>(id)]);
          break;
        case Storage::kConst:
          made.pointers.back() = constants_[external].data();
          break;
        case Storage::kFeed:
          feeds_[external].patches.push_back(patch);
          break;
        case Storage::kVariable:
          variable_externals_[external].patches.push_back(patch);
          break;
        case Storage::kFetch:
          fetches_[external].patches.push_back(patch);
          break;
        case Storage::kShared:
          shared_[external].external.patches.push_back(patch);
          break;
        case Storage::kReceived:
          received_[external].patches.push_back(patch);
          break;
        case Storage::kNothing:
          break;
      }
    }
  }
  return made;
}

void Plan::Point(External& external, const void* data) {
  if (external.bound == data) {
    return;
  }
  external.bound = data;
  for (const Patch& patch : external.patches) {
    calls_[patch.call].pointers[patch.position] = const_cast<void*>(data);
  }
}

Status Plan::BindArena() {
  const size_t bytes = stats_.arena_bytes + stats_.scratch_bytes;
  void* arena = nullptr;
  if (transfers_ == nullptr) {
    LS_ASSIGN_OR_RETURN(arena, device_.Arena(bytes));
  } else {
    if (own_arena_ == nullptr) {
      LS_ASSIGN_OR_RETURN(own_arena_, Buffer::Allocate(bytes));
    }
    arena = own_arena_->data();
  }
  if (arena == arena_) {
    return OkStatus();
  }
  arena_ = arena;
  for (const auto& [patch, offset] : arena_patches_) {
    calls_[patch.call].pointers[patch.position] = static_cast<char*>(arena) + offset;
  }
  for (Call& call : calls_) {
    call.scratch = static_cast<char*>(arena) + stats_.arena_bytes;
  }
  return OkStatus();
}

Status Plan::BindShared() {
  for (Shared& shared : shared_) {
    if (!shared.tensor.has_value() || !shared.tensor.unique()) {
      LS_ASSIGN_OR_RETURN(shared.tensor, Tensor::Allocate(shared.dtype, shared.shape));
    }
    Point(shared.external, shared.tensor.data());
  }
  return OkStatus();
}

bool Plan::Outdated() {
  const MutexLock lock(device_.mutex());
  return std::any_of(variables_.begin(), variables_.end(),
                     [](const VariableUse& use) { return !(use.variable->layout == use.layout); });
}

Status Plan::CheckNotMoved() const {
  for (size_t i = 0; i < variables_.size(); ++i) {
    if (variable_externals_[i].bound != variables_[i].variable->buffer->data()) {
      return Unavailable(fmt::format(
          "variable '{}' moved to another layout while the step was waiting: run it again",
          variables_[i].variable->name));
    }
  }
  return OkStatus();
}

Status Plan::CheckVariables() {
  for (size_t i = 0; i < variables_.size(); ++i) {
    const VariableUse& use = variables_[i];
    if (!(use.variable->layout == use.layout)) {
      return Aborted(fmt::format("variable '{}' has moved to another layout", use.variable->name));
    }
    if (use.needs_initialized && !use.variable->initialized) {
      return FailedPrecondition(
          fmt::format("variable '{}' is read before it was initialised: run the initialisers, "
                      "restore a checkpoint, or assign it",
                      use.variable->name));
    }
    Point(variable_externals_[i], use.variable->buffer->data());
  }
  return OkStatus();
}

Status Plan::Bind(std::span<const Tensor> feeds, std::span<Tensor> fetches) {
  LS_CHECK(feeds.size() == feeds_.size() && fetches.size() == fetches_.size());
  LS_TRY(CheckVariables());
  LS_TRY(BindArena());
  LS_TRY(BindShared());
  for (size_t i = 0; i < feeds.size(); ++i) {
    if (!feeds_[i].patches.empty()) {
      LS_CHECK(feeds[i].dtype() == feed_descs_[i].dtype &&
               feeds[i].shape() == feed_descs_[i].shape);
      Point(feeds_[i], feeds[i].data());
    }
  }
  for (size_t i = 0; i < fetches.size(); ++i) {
    Tensor& fetch = fetches[i];
    const TensorDesc& desc = fetch_descs_[i];
    const bool reusable = fetch.has_value() && fetch.unique() && fetch.dtype() == desc.dtype &&
                          fetch.shape() == desc.shape;
    if (!reusable) {
      LS_ASSIGN_OR_RETURN(fetch, Tensor::Allocate(desc.dtype, desc.shape));
    }
    Point(fetches_[i], fetch.data());
  }
  return OkStatus();
}

Status Plan::RunCalls(const StepInfo& info, StepProfile* profile, const FetchListener& on_fetched,
                      const TransferContext* transfers) {
  using Clock = std::chrono::steady_clock;
  if (profile != nullptr && profile->entries.size() != calls_.size()) {
    profile->entries.clear();
    for (const Call& call : calls_) {
      profile->entries.push_back({call.kind, call.node->name, 0, 0});
    }
  }
  const Cancellation* cancellation = transfers == nullptr ? nullptr : transfers->cancellation;
  for (size_t i = 0; i < calls_.size(); ++i) {
    const Call& call = calls_[i];
    const KernelArgs args{call.pointers.data(), call.pointers.data() + call.num_inputs,
                          call.scratch, &info};
    const Clock::time_point start = profile == nullptr ? Clock::time_point() : Clock::now();
    const Status status = call.transfer < 0 ? call.run(args) : RunTransfer(call);
    if (!status.ok()) {
      // Who is only stopped has nothing to do with the cause.
      return IsDerived(status) ? status : status.With(call.node->Describe());
    }
    if (cancellation != nullptr && cancellation->cancelled()) {
      return cancellation->status();
    }
    if (profile != nullptr) {
      profile->entries[i].seconds += std::chrono::duration<double>(Clock::now() - start).count();
      ++profile->entries[i].calls;
    }
    if (on_fetched != nullptr) {
      std::for_each(call.final_fetches.begin(), call.final_fetches.end(), on_fetched);
    }
  }
  return OkStatus();
}

Status Plan::RunTransfer(const Call& call) {
  const auto transfer = static_cast<size_t>(call.transfer);
  // A receive has an output, a send has none.
  if (call.pointers.size() > call.num_inputs) {
    return Receive(transfer);
  }
  const SendSource& source = send_sources_[transfer];
  if (source.shared < 0) {
    LS_ASSIGN_OR_RETURN(const Tensor nothing, Tensor::Allocate(DType::kUInt8, Shape{0}));
    transfers_->Send(transfer, nothing);
    return OkStatus();
  }
  const Tensor& tensor = shared_[static_cast<size_t>(source.shared)].tensor;
  if (tensor.shape() == source.shape) {
    transfers_->Send(transfer, tensor);
    return OkStatus();
  }
  LS_ASSIGN_OR_RETURN(const Tensor view, tensor.Reshaped(source.shape));
  transfers_->Send(transfer, view);
  return OkStatus();
}

Status Plan::Receive(size_t recv) {
  if (!transfers_->HasArrived(recv)) {
    device_.mutex().Unlock();
    const Status status = transfers_->WaitFor(recv);
    device_.mutex().Lock();
    LS_TRY(status);
    LS_TRY(CheckNotMoved());
  }
  LS_ASSIGN_OR_RETURN(const Tensor* tensor, transfers_->Arrived(recv));
  Point(received_[recv], tensor->data());
  return OkStatus();
}

Status Plan::ResolvePeers(const PeerResolver& resolver) {
  return transfers_ == nullptr ? OkStatus() : transfers_->ResolvePeers(resolver);
}

Status Plan::Run(std::span<const Tensor> feeds, std::span<Tensor> fetches, const StepInfo& info,
                 StepProfile* profile, const FetchListener& on_fetched,
                 const TransferContext* transfers) {
  LS_CHECK(transfers_ == nullptr || transfers != nullptr);
  Status status;
  {
    const MutexLock lock(device_.mutex());
    LS_TRY(Bind(feeds, fetches));
    device_.UseThreads();
    const FlushDenormals flush;
    if (transfers_ != nullptr) {
      status = transfers_->Start(*transfers);
    }
    if (status.ok()) {
      status = RunCalls(info, profile, on_fetched, transfers);
    }
    for (const VariableUse& use : variables_) {
      if (use.initializes && status.ok()) {
        use.variable->initialized = true;
      }
    }
  }
  return transfers_ == nullptr ? status : transfers_->Finish(status);
}

std::string Plan::ToString() const {
  std::string text;
  for (const Call& call : calls_) {
    text += fmt::format("{:<28} {:<48}{}\n", call.kind, call.node->name, call.layouts);
  }
  return text;
}

}  // namespace lockstep::exec
