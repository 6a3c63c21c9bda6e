#include "lockstep/exec/internal/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <queue>

namespace lockstep::exec {
namespace {

bool Bit(uint32_t mask, size_t i) {
  return i < 32 && ((mask >> i) & 1U) != 0;
}

class Scheduler {
 public:
  explicit Scheduler(const PlanGraph& plan)
      : plan_(plan),
        successors_(plan.steps.size()),
        program_successors_(plan.steps.size()),
        readers_(plan.variables.size()),
        writers_(plan.variables.size()) {}

  Result<Schedule> Run();

 private:
  // `by_program`: the program asks for the order, so that what follows sees what came before.
  void AddEdge(int from, int to, bool by_program) {
    successors_[static_cast<size_t>(from)].push_back(to);
    if (by_program) {
      program_successors_[static_cast<size_t>(from)].push_back(to);
    }
  }

  void AddDataEdges();
  void FindVariableUses();
  void OrderVariable(size_t variable);
  // Steps that follow `step` by the program, itself included.
  std::vector<bool> Followers(int step) const;
  Result<std::vector<int>> Order() const;

  // An update or a fetch: what it reads is mostly not needed any more.
  bool FreesMemory(const PlanStep& step) const {
    return step.written_inputs != 0 ||
           (!step.outputs.empty() && plan_.value(step.outputs[0]).storage == Storage::kFetch);
  }

  // Other parts may wait for what stands early in this one.
  Status CheckRanks(const std::vector<int>& order) const;

  const PlanGraph& plan_;
  std::vector<std::vector<int>> successors_;
  std::vector<std::vector<int>> program_successors_;
  std::vector<std::vector<int>> readers_;
  std::vector<std::vector<int>> writers_;
  Schedule schedule_;
};

void Scheduler::AddDataEdges() {
  for (size_t s = 0; s < plan_.steps.size(); ++s) {
    const PlanStep& step = plan_.steps[s];
    for (const int input : step.inputs) {
      if (input != kNoValue && plan_.value(input).producer >= 0) {
        AddEdge(plan_.value(input).producer, static_cast<int>(s), true);
      }
    }
    for (const int before : step.after) {
      AddEdge(before, static_cast<int>(s), true);
    }
  }
}

void Scheduler::FindVariableUses() {
  for (size_t s = 0; s < plan_.steps.size(); ++s) {
    const PlanStep& step = plan_.steps[s];
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      if (step.inputs[i] == kNoValue) {
        continue;
      }
      const PlanValue& root = plan_.root_of(step.inputs[i]);
      if (root.storage != Storage::kVariable) {
        continue;
      }
      auto& uses = Bit(step.written_inputs, i) ? writers_ : readers_;
      uses[static_cast<size_t>(root.external)].push_back(static_cast<int>(s));
    }
  }
}

std::vector<bool> Scheduler::Followers(int step) const {
  std::vector<bool> follows(plan_.steps.size(), false);
  std::vector<int> stack = {step};
  follows[static_cast<size_t>(step)] = true;
  while (!stack.empty()) {
    const auto at = static_cast<size_t>(stack.back());
    stack.pop_back();
    for (const int next : program_successors_[at]) {
      if (!follows[static_cast<size_t>(next)]) {
        follows[static_cast<size_t>(next)] = true;
        stack.push_back(next);
      }
    }
  }
  return follows;
}

void Scheduler::OrderVariable(size_t variable) {
  const std::vector<int>& writers = writers_[variable];
  std::vector<bool> initialized_before(plan_.steps.size(), false);
  for (const int writer : writers) {
    const std::vector<bool> follows = Followers(writer);
    const PlanStep& step = plan_.steps[static_cast<size_t>(writer)];
    if ((step.initialized_inputs & step.written_inputs) != 0) {
      schedule_.initializes[variable] = true;
      for (size_t s = 0; s < follows.size(); ++s) {
        initialized_before[s] = initialized_before[s] || follows[s];
      }
    }
    for (const int reader : readers_[variable]) {
      if (!follows[static_cast<size_t>(reader)]) {
        AddEdge(reader, writer, false);
      }
    }
    // Writers that nothing orders run in the order in which they were made.
    for (const int other : writers) {
      if (other < writer && !follows[static_cast<size_t>(other)]) {
        AddEdge(other, writer, false);
      }
    }
  }
  const auto not_initialized = [&](int step) {
    return !initialized_before[static_cast<size_t>(step)];
  };
  schedule_.needs_initialized[variable] =
      std::any_of(readers_[variable].begin(), readers_[variable].end(), not_initialized) ||
      std::any_of(writers.begin(), writers.end(), not_initialized);
}

Status Scheduler::CheckRanks(const std::vector<int>& order) const {
  for (size_t i = 1; plan_.has_transfers() && i < order.size(); ++i) {
    const PlanStep& before = plan_.steps[static_cast<size_t>(order[i - 1])];
    const PlanStep& after = plan_.steps[static_cast<size_t>(order[i])];
    if (before.rank > after.rank) {
      return InvalidArgument(
          fmt::format("{} has to read a variable before {} writes it, but stands behind it in the "
                      "part of a placed graph",
                      before.node->Describe(), after.node->Describe()));
    }
  }
  return OkStatus();
}

Result<std::vector<int>> Scheduler::Order() const {
  std::vector<int> waiting(plan_.steps.size(), 0);
  for (const auto& successors : successors_) {
    for (const int next : successors) {
      ++waiting[static_cast<size_t>(next)];
    }
  }
  // Updates and fetches first, then in order of creation; with transfers in the order of the graph.
  const auto priority = [&](int step) {
    const PlanStep& s = plan_.steps[static_cast<size_t>(step)];
    return std::make_pair(plan_.has_transfers() ? s.rank : static_cast<int>(!FreesMemory(s)), step);
  };
  const auto later = [&](int a, int b) { return priority(a) > priority(b); };
  std::priority_queue<int, std::vector<int>, decltype(later)> ready(later);
  for (size_t s = 0; s < waiting.size(); ++s) {
    if (waiting[s] == 0) {
      ready.push(static_cast<int>(s));
    }
  }
  std::vector<int> order;
  while (!ready.empty()) {
    const int step = ready.top();
    ready.pop();
    order.push_back(step);
    for (const int next : successors_[static_cast<size_t>(step)]) {
      if (--waiting[static_cast<size_t>(next)] == 0) {
        ready.push(next);
      }
    }
  }
  if (order.size() == plan_.steps.size()) {
    LS_TRY(CheckRanks(order));
    return order;
  }
  const auto stuck = static_cast<size_t>(
      std::find_if(waiting.begin(), waiting.end(), [](int count) { return count > 0; }) -
      waiting.begin());
  return InvalidArgument(fmt::format(
      "{} and other steps each have to read a variable before another of them writes it: put a "
      "copy of one value in between",
      plan_.steps[stuck].node->Describe()));
}

Result<Schedule> Scheduler::Run() {
  schedule_.needs_initialized.assign(plan_.variables.size(), false);
  schedule_.initializes.assign(plan_.variables.size(), false);
  AddDataEdges();
  FindVariableUses();
  for (size_t variable = 0; variable < plan_.variables.size(); ++variable) {
    OrderVariable(variable);
  }
  LS_ASSIGN_OR_RETURN(schedule_.order, Order());
  return std::move(schedule_);
}

}  // namespace

Result<Schedule> ScheduleSteps(const PlanGraph& plan) {
  return Scheduler(plan).Run();
}

}  // namespace lockstep::exec
