#include "lockstep/exec/internal/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "lockstep/graph/graph.h"
#include "lockstep/op/catalog.h"

namespace lockstep::exec {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint32_t kFirstInput = 1;

class ScheduleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    NodeSpec spec;
    spec.name = "step";
    spec.op = "Placeholder";
    spec.attrs = {{"dtype", DType::kFloat32}, {"shape", Shape{1}}};
    node_ = graph_.AddNode(spec).value();
  }

  int NewVariable() {
    PlanValue value;
    value.storage = Storage::kVariable;
    value.external = static_cast<int>(plan_.variables.size());
    value.root = static_cast<int>(plan_.values.size());
    plan_.variables.push_back(nullptr);
    plan_.values.push_back(value);
    return value.root;
  }

  // A step with one output; returns its index. `output_of` is that output's value.
  int Step(std::vector<int> inputs, std::vector<int> after = {}) {
    PlanStep step;
    step.node = node_;
    step.inputs = std::move(inputs);
    step.after = std::move(after);
    PlanValue output;
    output.root = static_cast<int>(plan_.values.size());
    output.producer = static_cast<int>(plan_.steps.size());
    step.outputs = {output.root};
    plan_.values.push_back(output);
    plan_.steps.push_back(std::move(step));
    return output.producer;
  }

  int Write(int variable, std::vector<int> more = {}, std::vector<int> after = {}) {
    more.insert(more.begin(), variable);
    const int step = Step(std::move(more), std::move(after));
    plan_.steps[static_cast<size_t>(step)].written_inputs = kFirstInput;
    // The result is the variable.
    PlanValue& output = plan_.value(OutputOf(step));
    output.root = variable;
    output.storage = Storage::kVariable;
    output.external = plan_.value(variable).external;
    return step;
  }

  int Initialize(int variable, std::vector<int> after = {}) {
    const int step = Write(variable, {}, std::move(after));
    plan_.steps[static_cast<size_t>(step)].initialized_inputs = kFirstInput;
    return step;
  }

  int OutputOf(int step) const { return plan_.steps[static_cast<size_t>(step)].outputs[0]; }

  std::vector<int> Order() {
    Result<Schedule> schedule = ScheduleSteps(plan_);
    EXPECT_TRUE(schedule.ok()) << schedule.status().ToString();
    return schedule.ok() ? schedule->order : std::vector<int>{};
  }

  Graph graph_{op::Catalog()};
  const Node* node_ = nullptr;
  PlanGraph plan_;
};

TEST_F(ScheduleTest, NothingToRun) {
  EXPECT_THAT(Order(), ElementsAre());
}

TEST_F(ScheduleTest, KeepsTheOrderOfCreationWhereItMay) {
  const int a = Step({});
  const int b = Step({});
  const int c = Step({OutputOf(a), kNoValue});
  EXPECT_THAT(Order(), ElementsAre(a, b, c));
}

TEST_F(ScheduleTest, FollowsControlInputs) {
  const int a = Step({});
  const int b = Step({});
  plan_.steps[static_cast<size_t>(a)].after = {b};
  EXPECT_THAT(Order(), ElementsAre(b, a));
}

TEST_F(ScheduleTest, ReadsComeBeforeWritesTheyDoNotFollow) {
  const int v = NewVariable();
  const int write = Write(v);
  const int slow = Step({});
  const int read = Step({v, OutputOf(slow)});
  EXPECT_THAT(Order(), ElementsAre(slow, read, write));
}

TEST_F(ScheduleTest, ReadsOfAViewCountToo) {
  const int v = NewVariable();
  const int write = Write(v);
  const int view = Step({v});
  plan_.value(OutputOf(view)).root = v;
  plan_.value(OutputOf(view)).storage = Storage::kVariable;
  const int read = Step({OutputOf(view)});
  EXPECT_THAT(Order(), ElementsAre(view, read, write));
}

TEST_F(ScheduleTest, ReadsBehindAWriteByControl) {
  const int v = NewVariable();
  const int read = Step({v});
  const int write = Write(v);
  plan_.steps[static_cast<size_t>(read)].after = {write};
  EXPECT_THAT(Order(), ElementsAre(write, read));
}

TEST_F(ScheduleTest, ReadsBehindAWriteByData) {
  const int v = NewVariable();
  const int write = Write(v);
  const int read = Step({OutputOf(write), v});
  EXPECT_THAT(Order(), ElementsAre(write, read));
}

TEST_F(ScheduleTest, ReadsBetweenTwoWrites) {
  const int v = NewVariable();
  const int first = Write(v);
  const int second = Write(v);
  const int read = Step({v}, {first});
  EXPECT_THAT(Order(), ElementsAre(first, read, second));
}

TEST_F(ScheduleTest, WritesThatNothingOrdersKeepTheirOrder) {
  const int v = NewVariable();
  const int slow = Step({});
  const int first = Write(v, {OutputOf(slow)});
  const int second = Write(v);
  EXPECT_THAT(Order(), ElementsAre(slow, first, second));
}

TEST_F(ScheduleTest, TheProgramMayOrderWritesTheOtherWay) {
  const int v = NewVariable();
  const int first = Write(v);
  const int second = Write(v);
  plan_.steps[static_cast<size_t>(first)].after = {second};
  EXPECT_THAT(Order(), ElementsAre(second, first));
}

// A gradient's memory is free as soon as its variable is updated.
TEST_F(ScheduleTest, UpdatesRunAsSoonAsTheyMay) {
  const int v = NewVariable();
  const int forward = Step({v});
  const int gradient = Step({OutputOf(forward)});
  const int more = Step({OutputOf(forward)});
  const int last = Step({OutputOf(more)});
  const int update = Write(v, {OutputOf(gradient)});
  EXPECT_THAT(Order(), ElementsAre(forward, gradient, update, more, last));
}

TEST_F(ScheduleTest, AStepMayReadWhatItWrites) {
  const int v = NewVariable();
  const int write = Write(v, {v});
  EXPECT_THAT(Order(), ElementsAre(write));
}

TEST_F(ScheduleTest, AnExchangeIsAnError) {
  const int v = NewVariable();
  const int w = NewVariable();
  Write(v, {w});
  Write(w, {v});
  const Status status = ScheduleSteps(plan_).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("op Placeholder 'step'"));
  EXPECT_THAT(status.message(), HasSubstr("put a copy of one value in between"));
}

TEST_F(ScheduleTest, AnExchangeThroughACopyIsFine) {
  const int v = NewVariable();
  const int w = NewVariable();
  const int copy = Step({w});
  const int to_w = Write(w, {v});
  const int to_v = Write(v, {OutputOf(copy)});
  EXPECT_THAT(Order(), ElementsAre(copy, to_w, to_v));
}

class InitializationTest : public ScheduleTest {
 protected:
  // (needs_initialized, initializes) of the first variable.
  std::pair<bool, bool> Flags() {
    const Schedule schedule = ScheduleSteps(plan_).value();
    return {schedule.needs_initialized[0], schedule.initializes[0]};
  }
};

TEST_F(InitializationTest, AReadNeedsIt) {
  Step({NewVariable()});
  EXPECT_EQ(Flags(), std::make_pair(true, false));
}

TEST_F(InitializationTest, AnUpdateNeedsIt) {
  Write(NewVariable());
  EXPECT_EQ(Flags(), std::make_pair(true, false));
}

TEST_F(InitializationTest, AnAssignmentMakesIt) {
  Initialize(NewVariable());
  EXPECT_EQ(Flags(), std::make_pair(false, true));
}

TEST_F(InitializationTest, WhatFollowsTheAssignmentFindsIt) {
  const int v = NewVariable();
  const int made = Initialize(v);
  const int update = Write(v, {}, {made});
  Step({v}, {update});
  EXPECT_EQ(Flags(), std::make_pair(false, true));
}

TEST_F(InitializationTest, AReadBeforeTheAssignmentNeedsIt) {
  const int v = NewVariable();
  Step({v});
  Initialize(v);
  EXPECT_EQ(Flags(), std::make_pair(true, true));
}

TEST_F(InitializationTest, EachVariableOnItsOwn) {
  NewVariable();
  const int w = NewVariable();
  const int made = Initialize(w);
  Step({OutputOf(made)});
  const Schedule schedule = ScheduleSteps(plan_).value();
  EXPECT_THAT(schedule.needs_initialized, ElementsAre(false, false));
  EXPECT_THAT(schedule.initializes, ElementsAre(false, true));
}

}  // namespace
}  // namespace lockstep::exec
