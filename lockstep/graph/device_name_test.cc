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

}  // namespace
}  // namespace lockstep
