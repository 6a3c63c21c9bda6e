#include "lockstep/exec/internal/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace lockstep::exec {
namespace {

class PlanBuilder {
 public:
  int Value(int64_t bytes, Storage storage = Storage::kArena) {
    PlanValue value;
    value.desc = {DType::kUInt8, Shape{bytes}, Layout(), false};
    value.storage = storage;
    value.external = storage == Storage::kArena ? -1 : 0;
    value.root = static_cast<int>(plan_.values.size());
    plan_.values.push_back(value);
    return value.root;
  }

  int ViewOf(int of) {
    PlanValue value = plan_.value(of);
    plan_.values.push_back(value);  // with the same root
    return static_cast<int>(plan_.values.size()) - 1;
  }

  // Returns the index of the step.
  int Step(std::vector<int> inputs, std::vector<int> outputs, std::vector<int> in_place = {},
           size_t scratch_bytes = 0) {
    const int index = static_cast<int>(plan_.steps.size());
    for (const int output : outputs) {
      plan_.value(output).producer = index;
    }
    PlanStep step;
    step.inputs = std::move(inputs);
    step.outputs = std::move(outputs);
    step.kernel.in_place = std::move(in_place);
    step.kernel.scratch_bytes = scratch_bytes;
    plan_.steps.push_back(std::move(step));
    return index;
  }

  MemoryPlan Run() const {
    std::vector<int> order(plan_.steps.size());
    std::iota(order.begin(), order.end(), 0);
    return PlanMemory(plan_, order);
  }

  const PlanGraph& plan() const { return plan_; }

 private:
  PlanGraph plan_;
};

struct Range {
  size_t begin;
  size_t end;

  bool Overlaps(const Range& other) const { return begin < other.end && other.begin < end; }

  bool operator==(const Range&) const = default;
};

// Runs a plan on an arena that holds, instead of numbers, the name of the value that each byte
// belongs to. Every read must find what its producer wrote; buffers of one step may overlap only
// where the kernel allows it.
class ArenaSimulation {
 public:
  ArenaSimulation(const PlanGraph& plan, const MemoryPlan& memory)
      : plan_(plan), memory_(memory), owners_(memory.arena_bytes, kNoValue) {}

  // Empty if nothing is wrong.
  std::string Run(const std::vector<int>& order) {
    for (const int index : order) {
      const PlanStep& step = plan_.steps[static_cast<size_t>(index)];
      std::string wrong = CheckReads(step);
      wrong += CheckOverlaps(step);
      if (!wrong.empty()) {
        return "step " + std::to_string(index) + ": " + wrong;
      }
      for (const int output : step.outputs) {
        if (InArena(output)) {
          const Range range = RangeOf(output);
          std::fill(owners_.begin() + static_cast<int64_t>(range.begin),
                    owners_.begin() + static_cast<int64_t>(range.end), plan_.value(output).root);
        }
      }
    }
    return {};
  }

 private:
  bool InArena(int id) const {
    return id != kNoValue && plan_.root_of(id).storage == Storage::kArena;
  }

  Range RangeOf(int id) const {
    const size_t offset = memory_.offsets[static_cast<size_t>(id)];
    return {offset, offset + plan_.value(id).desc.bytes()};
  }

  std::string CheckReads(const PlanStep& step) const {
    for (const int input : step.inputs) {
      if (!InArena(input)) {
        continue;
      }
      const Range range = RangeOf(input);
      for (size_t i = range.begin; i < range.end; ++i) {
        if (owners_.at(i) != plan_.value(input).root) {
          return "input " + std::to_string(input) + " was overwritten by " +
                 std::to_string(owners_[i]);
        }
      }
    }
    return {};
  }

  std::string CheckOverlaps(const PlanStep& step) const {
    for (size_t o = 0; o < step.outputs.size(); ++o) {
      const int output = step.outputs[o];
      if (!InArena(output)) {
        continue;
      }
      const Range range = RangeOf(output);
      if (range.end > memory_.arena_bytes || range.begin % 64 != 0) {
        return "output " + std::to_string(output) + " is misplaced";
      }
      for (size_t other = 0; other < o; ++other) {
        if (InArena(step.outputs[other]) && range.Overlaps(RangeOf(step.outputs[other])) &&
            plan_.value(output).root != plan_.value(step.outputs[other]).root) {
          return "two outputs overlap";
        }
      }
      for (size_t i = 0; i < step.inputs.size(); ++i) {
        const int input = step.inputs[i];
        if (!InArena(input) || !range.Overlaps(RangeOf(input)) ||
            plan_.value(input).root == plan_.value(output).root) {
          continue;
        }
        const bool allowed = o < step.kernel.in_place.size() &&
                             step.kernel.in_place[o] == static_cast<int>(i) &&
                             range == RangeOf(input);
        if (!allowed) {
          return "output " + std::to_string(output) + " overlaps input " + std::to_string(input);
        }
      }
    }
    return {};
  }

  const PlanGraph& plan_;
  const MemoryPlan& memory_;
  std::vector<int> owners_;
};

// A plan of random steps: values of few different sizes, views, values from outside, and kernels
// that may work in place.
class RandomPlan {
 public:
  explicit RandomPlan(uint32_t seed) : random_(seed) {
    known_ = {build_.Value(64, Storage::kFeed), build_.Value(256, Storage::kVariable)};
    const int steps = Pick(1, 60);
    for (int i = 0; i < steps; ++i) {
      AddStep();
    }
  }

  const PlanBuilder& build() const { return build_; }

 private:
  int Pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  int Known() {
    // Mostly recent values, so that others end.
    const int count = static_cast<int>(known_.size());
    return known_[static_cast<size_t>(Pick(0, 4) == 0 ? Pick(0, count - 1)
                                                      : Pick(std::max(0, count - 6), count - 1))];
  }

  void AddStep() {
    std::vector<int> inputs;
    const int num_inputs = Pick(0, 4);
    for (int i = 0; i < num_inputs; ++i) {
      inputs.push_back(Pick(0, 9) == 0 ? kNoValue : Known());
    }
    if (num_inputs > 0 && inputs[0] != kNoValue && Pick(0, 4) == 0) {
      const int view = build_.ViewOf(inputs[0]);
      build_.Step({inputs[0]}, {view});
      known_.push_back(view);
      return;
    }
    constexpr int64_t kSizes[] = {0, 1, 64, 100, 256, 256, 256, 1000};
    std::vector<int> outputs;
    std::vector<int> in_place;
    const int num_outputs = Pick(0, 3);
    for (int i = 0; i < num_outputs; ++i) {
      const bool fetched = Pick(0, 9) == 0;
      outputs.push_back(
          build_.Value(kSizes[Pick(0, 7)], fetched ? Storage::kFetch : Storage::kArena));
      in_place.push_back(Pick(-1, num_inputs - 1));
    }
    if (Pick(0, 4) == 0) {
      in_place.clear();
    }
    build_.Step(std::move(inputs), outputs, std::move(in_place));
    known_.insert(known_.end(), outputs.begin(), outputs.end());
  }

  std::mt19937 random_;
  PlanBuilder build_;
  std::vector<int> known_;
};

TEST(MemoryPlanTest, ValuesThatLiveAtTheSameTimeDoNotOverlap) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    const RandomPlan random(seed);
    const PlanGraph& plan = random.build().plan();
    std::vector<int> order(plan.steps.size());
    std::iota(order.begin(), order.end(), 0);
    const MemoryPlan memory = PlanMemory(plan, order);
    ASSERT_EQ(ArenaSimulation(plan, memory).Run(order), "") << "seed " << seed;
  }
}

// Positions in the schedule count, not indices of steps.
TEST(MemoryPlanTest, FollowsTheSchedule) {
  PlanBuilder build;
  const int a = build.Value(640);
  const int b = build.Value(640);
  build.Step({b}, {});
  build.Step({}, {b});
  build.Step({a}, {});
  build.Step({}, {a});
  const std::vector<int> order = {3, 2, 1, 0};
  const MemoryPlan memory = PlanMemory(build.plan(), order);
  EXPECT_EQ(memory.arena_bytes, 640U);
  EXPECT_EQ(ArenaSimulation(build.plan(), memory).Run(order), "");
  const std::vector<int> interleaved = {1, 3, 0, 2};
  const MemoryPlan both = PlanMemory(build.plan(), interleaved);
  EXPECT_EQ(both.arena_bytes, 1280U);
  EXPECT_EQ(ArenaSimulation(build.plan(), both).Run(interleaved), "");
}

// The simulation itself must see a wrong plan.
TEST(MemoryPlanTest, TheSimulationFindsOverlaps) {
  PlanBuilder build;
  const int a = build.Value(64);
  const int b = build.Value(64);
  build.Step({}, {a});
  build.Step({}, {b});
  build.Step({a, b}, {});
  MemoryPlan memory = build.Run();
  EXPECT_EQ(ArenaSimulation(build.plan(), memory).Run({0, 1, 2}), "");
  memory.offsets[static_cast<size_t>(b)] = memory.offsets[static_cast<size_t>(a)];
  EXPECT_NE(ArenaSimulation(build.plan(), memory).Run({0, 1, 2}), "");
}

TEST(MemoryPlanTest, AChainUsesTwoBuffersInTurn) {
  PlanBuilder build;
  int last = build.Value(1000);
  build.Step({}, {last});
  for (int i = 0; i < 10; ++i) {
    const int next = build.Value(1000);
    build.Step({last}, {next});
    last = next;
  }
  EXPECT_EQ(build.Run().arena_bytes, 2U * 1024);
}

TEST(MemoryPlanTest, AChainInPlaceUsesOne) {
  PlanBuilder build;
  int last = build.Value(1000);
  build.Step({}, {last});
  for (int i = 0; i < 10; ++i) {
    const int next = build.Value(1000);
    build.Step({last}, {next}, {0});
    last = next;
  }
  EXPECT_EQ(build.Run().arena_bytes, 1024U);
}

class TakeOverTest : public ::testing::Test {
 protected:
  // Whether y has the buffer of x.
  bool Shares(int x, int y) const {
    const MemoryPlan memory = build_.Run();
    return memory.offsets[static_cast<size_t>(x)] == memory.offsets[static_cast<size_t>(y)];
  }

  int Made(int64_t bytes) {
    const int value = build_.Value(bytes);
    build_.Step({}, {value});
    return value;
  }

  PlanBuilder build_;
};

TEST_F(TakeOverTest, NotIfTheInputIsReadLater) {
  const int x = Made(128);
  const int y = build_.Value(128);
  build_.Step({x}, {y}, {0});
  build_.Step({x, y}, {});
  EXPECT_FALSE(Shares(x, y));
}

TEST_F(TakeOverTest, NotIfAViewOfTheInputIsReadLater) {
  const int x = Made(128);
  const int view = build_.ViewOf(x);
  build_.Step({x}, {view});
  const int y = build_.Value(128);
  build_.Step({x}, {y}, {0});
  build_.Step({view}, {});
  EXPECT_FALSE(Shares(x, y));
}

TEST_F(TakeOverTest, NotAnotherSize) {
  const int x = Made(128);
  const int y = build_.Value(64);
  build_.Step({x}, {y}, {0});
  EXPECT_FALSE(Shares(x, y));
}

TEST_F(TakeOverTest, NotWhatComesFromOutside) {
  const int x = build_.Value(128, Storage::kFeed);
  const int y = build_.Value(128);
  build_.Step({x}, {y}, {0});
  const int z = Made(128);
  build_.Step({y, z}, {});
  EXPECT_FALSE(Shares(y, z));
  EXPECT_EQ(build_.Run().arena_bytes, 256U);
}

TEST_F(TakeOverTest, OneOutputOnly) {
  const int x = Made(128);
  const int y = build_.Value(128);
  const int z = build_.Value(128);
  build_.Step({x}, {y, z}, {0, 0});
  build_.Step({y, z}, {});
  EXPECT_FALSE(Shares(y, z));
  EXPECT_EQ(build_.Run().arena_bytes, 256U);
}

// The kernel promises an order of reads and writes for the one input only.
TEST_F(TakeOverTest, NotIfAnotherInputIsTheSameBuffer) {
  const int x = Made(128);
  const int y = build_.Value(128);
  build_.Step({x, x}, {y}, {0});
  EXPECT_FALSE(Shares(x, y));
  const int view = build_.ViewOf(y);
  build_.Step({y}, {view});
  const int z = build_.Value(128);
  build_.Step({y, view}, {z}, {0});
  EXPECT_FALSE(Shares(y, z));
}

TEST_F(TakeOverTest, TheLastReaderOfAViewTakesItsBuffer) {
  const int x = Made(128);
  const int view = build_.ViewOf(x);
  build_.Step({x}, {view});
  const int y = build_.Value(128);
  build_.Step({view}, {y}, {0});
  build_.Step({y}, {});
  EXPECT_TRUE(Shares(x, y));
  EXPECT_EQ(build_.Run().arena_bytes, 128U);
}

TEST(MemoryPlanTest, ScratchIsTheMostThatAKernelNeeds) {
  PlanBuilder build;
  build.Step({}, {}, {}, 65);
  build.Step({}, {}, {}, 3);
  EXPECT_EQ(build.Run().scratch_bytes, 128U);
}

TEST(MemoryPlanTest, AnEmptyPlan) {
  const MemoryPlan memory = PlanBuilder().Run();
  EXPECT_EQ(memory.arena_bytes, 0U);
  EXPECT_EQ(memory.scratch_bytes, 0U);
}

// Empty tensors have addresses of their own, inside the arena.
TEST(MemoryPlanTest, EmptyValuesHaveRoom) {
  PlanBuilder build;
  const int x = build.Value(0);
  build.Step({}, {x});
  EXPECT_EQ(build.Run().arena_bytes, 64U);
}

}  // namespace
}  // namespace lockstep::exec
