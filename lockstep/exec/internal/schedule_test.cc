#include "lockstep/exec/internal/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "lockstep/graph/graph.h"
#include "lockstep/op/catalog.h"

namespace lockstep::exec {
namespace {

class ScheduleTest : public ::testing::Test {
 protected:
  ScheduleTest() {
    NodeSpec spec;
    spec.name = "node";
    spec.op = "NoOp";
    node_ = graph_.AddNode(std::move(spec)).value();
    PlanValue value;
    value.storage = Storage::kVariable;
    value.external = 0;
    value.root = 0;
    plan_.values.push_back(value);
    variable_.name = "v";
    plan_.variables.push_back(&variable_);
  }

  int NewValue() {
    PlanValue value;
    value.root = static_cast<int>(plan_.values.size());
    value.producer = static_cast<int>(plan_.steps.size());
    plan_.values.push_back(value);
    return value.root;
  }

  // Adds a step with one output and returns that.
  int Step(std::vector<int> inputs, uint32_t written = 0, uint32_t initialized = 0,
           std::vector<int> after = {}) {
    const int output = NewValue();
    PlanStep step;
    step.node = node_;
    step.inputs = std::move(inputs);
    step.outputs = {output};
    step.written_inputs = written;
    step.initialized_inputs = initialized;
    step.after = std::move(after);
    plan_.steps.push_back(std::move(step));
    return output;
  }

  static size_t Position(const Schedule& schedule, int step) {
    return static_cast<size_t>(std::find(schedule.order.begin(), schedule.order.end(), step) -
                               schedule.order.begin());
  }

  static constexpr int kVariable = 0;

  Graph graph_{op::Catalog()};
  Node* node_ = nullptr;
  Variable variable_;
  PlanGraph plan_;
};

TEST_F(ScheduleTest, ReadersComeBeforeAWriterThatTheyDoNotFollow) {
  Step({});                      // 0: a gradient
  Step({kVariable, 1}, 1);       // 1: the update
  Step({kVariable});             // 2: made later, still reads the old value
  Step({kVariable}, 0, 0, {1});  // 3: asked to follow the update
  const Schedule schedule = ScheduleSteps(plan_).value();
  EXPECT_LT(Position(schedule, 2), Position(schedule, 1));
  EXPECT_LT(Position(schedule, 1), Position(schedule, 3));
  EXPECT_TRUE(schedule.needs_initialized[0]);
  EXPECT_FALSE(schedule.initializes[0]);
}

TEST_F(ScheduleTest, UpdatesRunAsSoonAsTheyMay) {
  const int gradient = Step({});   // 0
  Step({});                        // 1
  Step({});                        // 2
  Step({kVariable, gradient}, 1);  // 3
  const Schedule schedule = ScheduleSteps(plan_).value();
  EXPECT_EQ(schedule.order, (std::vector<int>{0, 3, 1, 2}));
}

TEST_F(ScheduleTest, InitialisationNeedsNoInitialValue) {
  const int initial = Step({});      // 0
  Step({kVariable, initial}, 1, 1);  // 1: assigns
  Step({kVariable}, 0, 0, {1});      // 2: reads behind it
  const Schedule schedule = ScheduleSteps(plan_).value();
  EXPECT_FALSE(schedule.needs_initialized[0]);
  EXPECT_TRUE(schedule.initializes[0]);
}

TEST_F(ScheduleTest, WritersThatNothingOrdersRunInTheirOwnOrder) {
  Step({kVariable}, 1);  // 0
  Step({kVariable}, 1);  // 1
  Step({kVariable}, 1);  // 2
  EXPECT_EQ(ScheduleSteps(plan_).value().order, (std::vector<int>{0, 1, 2}));
}

}  // namespace
}  // namespace lockstep::exec
