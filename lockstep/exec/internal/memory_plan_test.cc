#include "lockstep/exec/internal/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "lockstep/base/philox.h"

namespace lockstep::exec {
namespace {

int AddValue(PlanGraph& plan, int64_t floats, Storage storage = Storage::kArena) {
  PlanValue value;
  value.desc = {DType::kFloat32, Shape{floats}, Layout(), false};
  value.storage = storage;
  value.root = static_cast<int>(plan.values.size());
  plan.values.push_back(value);
  return value.root;
}

void AddStep(PlanGraph& plan, std::vector<int> inputs, std::vector<int> outputs,
             std::vector<int> in_place = {}) {
  PlanStep step;
  for (const int output : outputs) {
    plan.value(output).producer = static_cast<int>(plan.steps.size());
  }
  step.inputs = std::move(inputs);
  step.outputs = std::move(outputs);
  step.kernel.in_place = std::move(in_place);
  plan.steps.push_back(std::move(step));
}

std::vector<int> InOrder(const PlanGraph& plan) {
  std::vector<int> order(plan.steps.size());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

TEST(MemoryPlanTest, AValueTakesTheBufferOfOneThatEnds) {
  PlanGraph plan;
  const int x = AddValue(plan, 100, Storage::kFeed);
  const int a = AddValue(plan, 100);
  const int b = AddValue(plan, 100);
  const int c = AddValue(plan, 100);
  AddStep(plan, {x}, {a}, {0});  // a feed is not ours to overwrite
  AddStep(plan, {a}, {b}, {0});
  AddStep(plan, {b}, {c}, {0});
  const MemoryPlan memory = PlanMemory(plan, InOrder(plan));
  EXPECT_EQ(memory.arena_bytes, 448U);  // one buffer of 400 bytes, rounded up to 64
  EXPECT_EQ(memory.offsets[static_cast<size_t>(a)], memory.offsets[static_cast<size_t>(c)]);
}

TEST(MemoryPlanTest, ABufferThatIsStillReadIsNotTakenOver) {
  PlanGraph plan;
  const int a = AddValue(plan, 100);
  const int b = AddValue(plan, 100);
  const int c = AddValue(plan, 100);
  AddStep(plan, {}, {a});
  AddStep(plan, {a}, {b}, {0});
  AddStep(plan, {a, b}, {c}, {1});
  const MemoryPlan memory = PlanMemory(plan, InOrder(plan));
  EXPECT_NE(memory.offsets[static_cast<size_t>(a)], memory.offsets[static_cast<size_t>(b)]);
  EXPECT_EQ(memory.offsets[static_cast<size_t>(b)], memory.offsets[static_cast<size_t>(c)]);
}

TEST(MemoryPlanTest, TwoOutputsDoNotShareOneBuffer) {
  PlanGraph plan;
  const int a = AddValue(plan, 100);
  const int b = AddValue(plan, 100);
  const int c = AddValue(plan, 100);
  AddStep(plan, {}, {a});
  AddStep(plan, {a}, {b, c}, {0, 0});
  AddStep(plan, {b, c}, {});
  const MemoryPlan memory = PlanMemory(plan, InOrder(plan));
  EXPECT_NE(memory.offsets[static_cast<size_t>(b)], memory.offsets[static_cast<size_t>(c)]);
}

TEST(MemoryPlanTest, ScratchIsTheMostThatAStepNeeds) {
  PlanGraph plan;
  AddStep(plan, {}, {});
  AddStep(plan, {}, {});
  plan.steps[0].kernel.scratch_bytes = 100;
  plan.steps[1].kernel.scratch_bytes = 65;
  EXPECT_EQ(PlanMemory(plan, InOrder(plan)).scratch_bytes, 128U);
}

// Runs a random plan on an array of tags: every step checks that its inputs still hold what their
// producers wrote.
TEST(MemoryPlanTest, RandomPlansNeverOverwriteALivingValue) {
  for (int64_t trial = 0; trial < 200; ++trial) {
    const PhiloxStream random(1, "plans", trial);
    uint64_t next = 0;
    const auto below = [&](uint32_t bound) { return UniformBelow(random.Word(next++), bound); };
    PlanGraph plan;
    AddStep(plan, {}, {AddValue(plan, 1 + below(50))});
    for (int s = 0; s < 40; ++s) {
      std::vector<int> inputs;
      for (uint32_t i = 0; i < 1 + below(3); ++i) {
        inputs.push_back(static_cast<int>(below(static_cast<uint32_t>(plan.values.size()))));
      }
      const int64_t size =
          below(2) == 0 ? plan.value(inputs[0]).desc.shape[0] : 1 + int64_t{below(50)};
      const int output = AddValue(plan, size);
      AddStep(plan, inputs, {output}, {0});
    }
    const MemoryPlan memory = PlanMemory(plan, InOrder(plan));
    std::vector<int> tags(memory.arena_bytes / sizeof(float), -1);
    const auto range = [&](int value) {
      const auto begin =
          tags.begin() +
          static_cast<std::ptrdiff_t>(memory.offsets[static_cast<size_t>(value)] / sizeof(float));
      return std::make_pair(begin, begin + plan.value(value).desc.shape[0]);
    };
    for (const PlanStep& step : plan.steps) {
      for (const int input : step.inputs) {
        const auto [begin, end] = range(input);
        ASSERT_TRUE(std::all_of(begin, end, [&](int tag) { return tag == input; })) << trial;
      }
      for (const int output : step.outputs) {
        const auto [begin, end] = range(output);
        std::fill(begin, end, output);
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::exec
