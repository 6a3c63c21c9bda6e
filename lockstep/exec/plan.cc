#include "lockstep/exec/plan.h"

#include <fmt/format.h>
#include <omp.h>
#include <xmmintrin.h>

#include <algorithm>
#include <chrono>

#include "lockstep/exec/internal/kernel_selection.h"
#include "lockstep/exec/internal/memory_plan.h"
#include "lockstep/exec/internal/schedule.h"

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

Plan::~Plan() = default;

Result<std::unique_ptr<Plan>> Plan::Compile(pass::SpecializedGraph graph, VariableStore& store,
                                            Device& device) {
  auto plan = std::make_unique<Plan>(Token(), device);
  omp_set_num_threads(device.threads());
  LS_ASSIGN_OR_RETURN(PlanGraph plan_graph, SelectKernels(graph, store, device.threads()));
  LS_ASSIGN_OR_RETURN(const Schedule schedule, ScheduleSteps(plan_graph));
  const MemoryPlan memory = PlanMemory(plan_graph, schedule.order);
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
  for (const int index : schedule.order) {
    PlanStep& step = plan.steps[static_cast<size_t>(index)];
    if (!step.kernel.run) {
      continue;
    }
    const Patch call{calls_.size(), 0};
    Call made{step.node,          step.kind, LayoutsOf(plan, step), std::move(step.kernel.run), {},
              step.inputs.size(), nullptr};
    for (const auto* ids : {&step.inputs, &step.outputs}) {
      for (const int id : *ids) {
        const Patch patch{call.call, made.pointers.size()};
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
        }
      }
    }
    ++stats_.kernels;
    stats_.reorders += made.kind == "Reorder" || made.kind == "Convert" ? 1 : 0;
    calls_.push_back(std::move(made));
  }
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
  LS_ASSIGN_OR_RETURN(void* arena, device_.Arena(stats_.arena_bytes + stats_.scratch_bytes));
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

Status Plan::RunCalls(const StepInfo& info, StepProfile* profile) {
  using Clock = std::chrono::steady_clock;
  if (profile != nullptr && profile->entries.size() != calls_.size()) {
    profile->entries.clear();
    for (const Call& call : calls_) {
      profile->entries.push_back({call.kind, call.node->name, 0, 0});
    }
  }
  for (size_t i = 0; i < calls_.size(); ++i) {
    const Call& call = calls_[i];
    const KernelArgs args{call.pointers.data(), call.pointers.data() + call.num_inputs,
                          call.scratch, &info};
    const Clock::time_point start = profile == nullptr ? Clock::time_point() : Clock::now();
    const Status status = call.run(args);
    if (!status.ok()) {
      return status.With(call.node->Describe());
    }
    if (profile != nullptr) {
      profile->entries[i].seconds += std::chrono::duration<double>(Clock::now() - start).count();
      ++profile->entries[i].calls;
    }
  }
  return OkStatus();
}

Status Plan::Run(std::span<const Tensor> feeds, std::span<Tensor> fetches, const StepInfo& info,
                 StepProfile* profile) {
  const MutexLock lock(device_.mutex());
  LS_TRY(Bind(feeds, fetches));
  omp_set_num_threads(device_.threads());
  const FlushDenormals flush;
  LS_TRY(RunCalls(info, profile));
  for (const VariableUse& use : variables_) {
    if (use.initializes) {
      use.variable->initialized = true;
    }
  }
  return OkStatus();
}

std::string Plan::ToString() const {
  std::string text;
  for (const Call& call : calls_) {
    text += fmt::format("{:<28} {:<48}{}\n", call.kind, call.node->name, call.layouts);
  }
  return text;
}

}  // namespace lockstep::exec
