#include "lockstep/exec/internal/memory_plan.h"

#include <algorithm>
#include <numeric>

namespace lockstep::exec {
namespace {

constexpr size_t kAlignment = 64;

size_t Align(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// The life of one buffer in positions of the schedule, both ends included.
struct Life {
  int begin = -1;
  int end = -1;
  size_t bytes = 0;
};

class MemoryPlanner {
 public:
  MemoryPlanner(const PlanGraph& plan, const std::vector<int>& order)
      : plan_(plan), order_(order), roots_(plan.values.size()), lives_(plan.values.size()) {
    std::transform(plan.values.begin(), plan.values.end(), roots_.begin(),
                   [](const PlanValue& value) { return value.root; });
  }

  MemoryPlan Run();

 private:
  bool InArena(int value) const {
    return value != kNoValue && plan_.root_of(value).storage == Storage::kArena;
  }

  Life& LifeOf(int value) {
    return lives_[static_cast<size_t>(roots_[static_cast<size_t>(value)])];
  }

  void FindLives();
  void TakeOverBuffers();
  void TakeOver(const PlanStep& step, size_t output, int position);
  void Place(MemoryPlan& memory) const;

  const PlanGraph& plan_;
  const std::vector<int>& order_;
  // The value whose buffer each value has, including take-overs.
  std::vector<int> roots_;
  std::vector<Life> lives_;
};

void MemoryPlanner::FindLives() {
  for (size_t position = 0; position < order_.size(); ++position) {
    const PlanStep& step = plan_.steps[static_cast<size_t>(order_[position])];
    for (const auto* ids : {&step.inputs, &step.outputs}) {
      for (const int id : *ids) {
        if (!InArena(id)) {
          continue;
        }
        Life& life = LifeOf(id);
        if (life.begin < 0) {
          life.begin = static_cast<int>(position);
        }
        life.end = static_cast<int>(position);
        life.bytes = std::max(life.bytes, plan_.value(id).desc.bytes());
      }
    }
  }
}

void MemoryPlanner::TakeOver(const PlanStep& step, size_t output, int position) {
  const int input = step.kernel.in_place[output];
  if (input == Kernel::kNone) {
    return;
  }
  const int to = step.outputs[output];
  const int from = step.inputs[static_cast<size_t>(input)];
  if (!InArena(to) || !InArena(from) || plan_.value(to).root != to) {
    return;
  }
  Life& old_life = LifeOf(from);
  if (old_life.end != position || old_life.bytes != LifeOf(to).bytes) {
    return;
  }
  const int old_root = roots_[static_cast<size_t>(from)];
  if (old_root == roots_[static_cast<size_t>(to)]) {
    return;
  }
  // Another input in the same buffer may be read at other places than those written so far, and
  // another output may have taken the buffer over already.
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    const int other = step.inputs[i];
    if (static_cast<int>(i) != input && other != kNoValue &&
        roots_[static_cast<size_t>(other)] == old_root) {
      return;
    }
  }
  for (const int other : step.outputs) {
    if (other != to && roots_[static_cast<size_t>(other)] == old_root) {
      return;
    }
  }
  const int new_root = roots_[static_cast<size_t>(to)];
  old_life.end = lives_[static_cast<size_t>(new_root)].end;
  lives_[static_cast<size_t>(new_root)] = Life{};
  std::replace(roots_.begin(), roots_.end(), new_root, old_root);
}

void MemoryPlanner::TakeOverBuffers() {
  for (size_t position = 0; position < order_.size(); ++position) {
    const PlanStep& step = plan_.steps[static_cast<size_t>(order_[position])];
    for (size_t output = 0; output < step.kernel.in_place.size(); ++output) {
      TakeOver(step, output, static_cast<int>(position));
    }
  }
}

// Largest first, each at the lowest offset that is free during its life.
void MemoryPlanner::Place(MemoryPlan& memory) const {
  std::vector<size_t> buffers;
  for (size_t i = 0; i < lives_.size(); ++i) {
    if (lives_[i].begin >= 0) {
      buffers.push_back(i);
    }
  }
  std::stable_sort(buffers.begin(), buffers.end(),
                   [&](size_t a, size_t b) { return lives_[a].bytes > lives_[b].bytes; });

  struct Placed {
    size_t offset;
    size_t end;
    const Life* life;
  };

  std::vector<Placed> placed;  // by offset
  std::vector<size_t> offsets(lives_.size(), 0);
  for (const size_t buffer : buffers) {
    const Life& life = lives_[buffer];
    const size_t bytes = Align(std::max<size_t>(life.bytes, 1));
    size_t offset = 0;
    for (const Placed& other : placed) {
      if (other.life->end < life.begin || other.life->begin > life.end) {
        continue;
      }
      if (offset + bytes <= other.offset) {
        break;
      }
      offset = std::max(offset, other.end);
    }
    offsets[buffer] = offset;
    memory.arena_bytes = std::max(memory.arena_bytes, offset + bytes);
    const Placed entry{offset, offset + bytes, &life};
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), entry,
                         [](const Placed& a, const Placed& b) { return a.offset < b.offset; }),
        entry);
  }
  memory.offsets.resize(plan_.values.size());
  for (size_t i = 0; i < memory.offsets.size(); ++i) {
    memory.offsets[i] = offsets[static_cast<size_t>(roots_[i])];
  }
}

MemoryPlan MemoryPlanner::Run() {
  MemoryPlan memory;
  FindLives();
  TakeOverBuffers();
  Place(memory);
  for (const PlanStep& step : plan_.steps) {
    memory.scratch_bytes = std::max(memory.scratch_bytes, Align(step.kernel.scratch_bytes));
  }
  return memory;
}

}  // namespace

MemoryPlan PlanMemory(const PlanGraph& plan, const std::vector<int>& order) {
  return MemoryPlanner(plan, order).Run();
}

}  // namespace lockstep::exec
