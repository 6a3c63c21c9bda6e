// Plan: a program compiled for one device, one signature and fixed shapes: a flat list of kernel
// calls with fixed buffers. Running a plan again allocates nothing besides results that the caller
// does not give back.
//
// A plan of a part of a placed graph also has calls that give tensors to other devices and wait for
// theirs. While it waits it leaves its device to other plans, and so has memory of its own.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/exec/device.h"
#include "lockstep/exec/rendezvous.h"
#include "lockstep/exec/variable_store.h"
#include "lockstep/graph/kernel.h"
#include "lockstep/pass/specialize.h"

namespace lockstep::exec {

struct PlanGraph;
struct PlanStep;
struct MemoryPlan;
struct Schedule;
struct TransferContext;
class PlanTransfers;

// What a plan consists of, for tests, profiles and reports.
struct PlanStats {
  size_t arena_bytes = 0;
  size_t scratch_bytes = 0;
  int kernels = 0;
  // Layout and type conversions that run in every step.
  int reorders = 0;
};

// Time spent in each step of a plan, summed over runs.
struct StepProfile {
  struct Entry {
    std::string kind;
    std::string name;
    double seconds = 0;
    int64_t calls = 0;
  };

  std::vector<Entry> entries;
};

// Hears of each fetch, by its position, as soon as its tensor is final: while the rest of the plan
// still runs. Called on the device's thread, which waits for it.
using FetchListener = std::function<void(size_t)>;

class Plan {
  // Only Compile can make one.
  struct Token {
    explicit Token() = default;
  };

 public:
  // Takes the graph over: steps refer to its nodes. Settles the layouts of variables that no plan
  // settled before.
  static Result<std::unique_ptr<Plan>> Compile(pass::SpecializedGraph graph, VariableStore& store,
                                               Device& device);

  Plan(Token, Device& device);

  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan();

  // Feeds in the order of the signature, of exactly the types and shapes compiled for. A fetch that
  // already holds a tensor of the right type and shape that nobody else shares is written in place.
  // kAborted: a variable has moved to another layout since the plan was compiled; compile again.
  // `profile` and `on_fetched` may be null. `transfers` may be null if the plan has none; one run
  // at a time if it has some. An error ends the transfers of the step on this task.
  Status Run(std::span<const Tensor> feeds, std::span<Tensor> fetches, const StepInfo& info,
             StepProfile* profile, const FetchListener& on_fetched = nullptr,
             const TransferContext* transfers = nullptr) LS_EXCLUDES(device_.mutex());

  // Tells the transfers which tasks they lead to; until then it is this one.
  Status ResolvePeers(const PeerResolver& resolver);

  // A variable has moved to another layout: Run would be kAborted.
  bool Outdated() LS_EXCLUDES(device_.mutex());

  const PlanStats& stats() const { return stats_; }

  // One line per step: kind, node, layouts of the outputs.
  std::string ToString() const;

 private:
  struct Call {
    const Node* node;
    std::string kind;
    std::string layouts;
    std::function<Status(const KernelArgs&)> run;
    // Inputs, then outputs.
    std::vector<void*> pointers;
    size_t num_inputs;
    void* scratch = nullptr;
    // Position among the sends (if it has no outputs) or receives; -1: it is neither.
    int transfer = -1;
    // Fetches that nothing touches after this call.
    std::vector<size_t> final_fetches = {};
  };

  // A pointer in a call that has to be set when its external buffer moves.
  struct Patch {
    size_t call;
    size_t position;
  };

  struct External {
    std::vector<Patch> patches;
    const void* bound = nullptr;
  };

  struct VariableUse {
    Variable* variable;
    Layout layout;
    bool needs_initialized;
    bool initializes;
  };

  // Memory that is given to other devices. They may hold on to it: then the next run takes new.
  struct Shared {
    DType dtype;
    Shape shape;
    Tensor tensor;
    External external;
  };

  // The value that a Send gives away.
  struct SendSource {
    // Position among the shared tensors; -1: no elements.
    int shared;
    Shape shape;
  };

  void Emit(PlanGraph& plan, const MemoryPlan& memory, const Schedule& schedule);
  void EmitTransfers(PlanGraph& plan);
  Call MakeCall(const PlanGraph& plan, const MemoryPlan& memory, PlanStep& step);
  Status Bind(std::span<const Tensor> feeds, std::span<Tensor> fetches)
      LS_REQUIRES(device_.mutex());
  Status BindArena() LS_REQUIRES(device_.mutex());
  Status BindShared();
  Status CheckVariables();
  // After the device was left to others.
  Status CheckNotMoved() const LS_REQUIRES(device_.mutex());
  void Point(External& external, const void* data);
  Status RunCalls(const StepInfo& info, StepProfile* profile, const FetchListener& on_fetched,
                  const TransferContext* transfers) LS_REQUIRES(device_.mutex());
  Status RunTransfer(const Call& call) LS_REQUIRES(device_.mutex());
  Status Receive(size_t recv) LS_REQUIRES(device_.mutex());

  Device& device_;
  std::unique_ptr<Graph> graph_;
  std::vector<Call> calls_;
  std::vector<TensorDesc> feed_descs_;
  std::vector<TensorDesc> fetch_descs_;
  std::vector<External> feeds_;
  std::vector<External> fetches_;
  std::vector<External> variable_externals_;
  std::vector<VariableUse> variables_;
  std::vector<Tensor> constants_;
  // Pointers into the arena: (patch, offset).
  std::vector<std::pair<Patch, size_t>> arena_patches_;
  void* arena_ = nullptr;
  std::vector<Shared> shared_;
  std::vector<External> received_;
  std::vector<SendSource> send_sources_;
  // Null if there are none.
  std::unique_ptr<PlanTransfers> transfers_;
  // Instead of the device's arena, if there are transfers.
  std::shared_ptr<Buffer> own_arena_;
  PlanStats stats_;
};

}  // namespace lockstep::exec
