#include "lockstep/graph/device_name.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

std::string Canonical(std::string_view text) {
  const Result<DeviceName> name = DeviceName::Parse(text);
  return name.ok() ? name->ToString() : "error";
}

TEST(DeviceNameTest, CanonicalForms) {
  EXPECT_EQ(Canonical("/job:worker/replica:0/task:1/device:CPU:0"),
            "/job:worker/replica:0/task:1/device:CPU:0");
  EXPECT_EQ(Canonical("cpu:0"), "/device:CPU:0");
  EXPECT_EQ(Canonical("/cpu:3"), "/device:CPU:3");
  EXPECT_EQ(Canonical("/job:ps/gpu:0"), "/job:ps/device:GPU:0");
  EXPECT_EQ(Canonical("/job:*/task:2"), "/task:2");
  EXPECT_EQ(Canonical("/device:CPU:*"), "/device:CPU");
  EXPECT_EQ(Canonical(""), "");
}

TEST(DeviceNameTest, Malformed) {
  for (const char* text : {"/", "//", "/job:", "/job:1a", "/task:-1", "/task:1x",
                           "/task:99999999999", "/device:", "cpu:x", "/job:a/job:b",
                           "/cpu:0/device:CPU:1", "/job:a/", "/task:+1", " cpu:0", "/bogus:1:2"}) {
    EXPECT_EQ(Canonical(text), "error") << text;
  }
}

TEST(DeviceNameTest, InnerScopeWins) {
  const DeviceName outer = DeviceName::Parse("/job:ps/task:1/device:GPU:3").value();
  EXPECT_EQ(outer.MergedWith(*DeviceName::Parse("/task:0")).ToString(),
            "/job:ps/task:0/device:GPU:3");
  EXPECT_EQ(outer.MergedWith(*DeviceName::Parse("cpu")).ToString(), "/job:ps/task:1/device:CPU");
  EXPECT_EQ(outer.MergedWith(*DeviceName::Parse("")).ToString(), outer.ToString());
}

TEST(DeviceNameTest, Compatibility) {
  const DeviceName full = DeviceName::Parse("/job:ps/task:1/device:CPU:0").value();
  EXPECT_TRUE(full.CompatibleWith(*DeviceName::Parse("/job:ps")));
  EXPECT_TRUE(full.CompatibleWith(*DeviceName::Parse("")));
  EXPECT_FALSE(full.CompatibleWith(*DeviceName::Parse("/job:worker")));
}

DeviceName Named(std::string_view text) {
  return DeviceName::Parse(text).value();
}

TEST(DeviceNameTest, PartialNamesAreFilled) {
  const DeviceName base = Named("/job:worker/replica:0/task:3/device:CPU:1");
  EXPECT_EQ(Named("").FilledFrom(base), base);
  EXPECT_EQ(Named("/job:ps").FilledFrom(base).ToString(), "/job:ps/replica:0/task:3/device:CPU:1");
  EXPECT_EQ(Named("/gpu:2").FilledFrom(base).ToString(),
            "/job:worker/replica:0/task:3/device:GPU:2");
  EXPECT_EQ(Named("/gpu").FilledFrom(base).ToString(), "/job:worker/replica:0/task:3/device:GPU");
  EXPECT_EQ(Named("/cpu").FilledFrom(base).ToString(), "/job:worker/replica:0/task:3/device:CPU");
  EXPECT_EQ(Named("/device:*:2").FilledFrom(base).ToString(),
            "/job:worker/replica:0/task:3/device:CPU:2");
}

TEST(DeviceNameTest, NamesAreCombined) {
  const auto combined = [](std::string_view a, std::string_view b, bool soft) {
    const Result<DeviceName> both = Named(a).CombinedWith(Named(b), soft);
    return both.ok() ? both->ToString() : both.status().message();
  };
  EXPECT_EQ(combined("/job:ps", "/task:1/cpu:0", false), "/job:ps/task:1/device:CPU:0");
  EXPECT_EQ(combined("/cpu:0", "/cpu", false), "/device:CPU:0");
  EXPECT_EQ(combined("/cpu", "/cpu:0", false), "/device:CPU:0");
  EXPECT_EQ(combined("/cpu:0", "/cpu:1", false),
            "the device names '/device:CPU:0' and '/device:CPU:1' contradict each other");
  EXPECT_EQ(combined("/cpu:0", "/gpu:0", false),
            "the device names '/device:CPU:0' and '/device:GPU:0' contradict each other");
  EXPECT_EQ(combined("/job:a/cpu:0", "/cpu:1", true), "/job:a/device:CPU");
  EXPECT_EQ(combined("/job:a/cpu:0", "/gpu:0", true), "/job:a");
  for (const bool soft : {false, true}) {
    EXPECT_EQ(combined("/job:a", "/job:b", soft),
              "the device names '/job:a' and '/job:b' contradict each other");
    EXPECT_EQ(combined("/task:0", "/task:1", soft),
              "the device names '/task:0' and '/task:1' contradict each other");
    EXPECT_EQ(combined("/replica:0", "/replica:1", soft),
              "the device names '/replica:0' and '/replica:1' contradict each other");
  }
}

TEST(DeviceNameTest, Covering) {
  const DeviceName full = Named("/job:ps/replica:0/task:1/device:CPU:0");
  EXPECT_TRUE(Named("").Covers(full));
  EXPECT_TRUE(Named("/job:ps/cpu:0").Covers(full));
  EXPECT_TRUE(full.Covers(full));
  EXPECT_FALSE(full.Covers(Named("/job:ps")));
  EXPECT_FALSE(Named("/task:0").Covers(full));
}

TEST(DeviceNameTest, TaskAndLocalDevice) {
  const DeviceName full = Named("/job:ps/replica:0/task:1/device:CPU:0");
  EXPECT_TRUE(full.full());
  EXPECT_EQ(full.TaskPart().ToString(), "/job:ps/replica:0/task:1");
  EXPECT_EQ(full.LocalPart().ToString(), "/device:CPU:0");
  EXPECT_TRUE(full.TaskPart().names_task());
  EXPECT_FALSE(full.TaskPart().full());
  EXPECT_FALSE(Named("/job:ps/task:1").names_task());
  EXPECT_TRUE(full.SameTask(Named("/job:ps/replica:0/task:1/device:GPU:7")));
  EXPECT_FALSE(full.SameTask(Named("/job:ps/replica:1/task:1/device:CPU:0")));
  EXPECT_FALSE(full.SameTask(Named("/job:ps/task:1")));
  EXPECT_FALSE(Named("").SameTask(Named("")));
}

}  // namespace
}  // namespace lockstep
