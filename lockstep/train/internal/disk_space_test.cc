#include "lockstep/train/internal/disk_space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/testing/temp_folder.h"

namespace lockstep::train::internal {
namespace {

TEST(DiskSpaceTest, WhatDoesNotFitIsSaidWithBothSizes) {
  const lockstep::testing::TempFolder folder;
  EXPECT_TRUE(CheckDiskSpace(folder.path(), "a checkpoint", 1).ok());
  const Status status = CheckDiskSpace(folder.path(), "a checkpoint", uint64_t{1} << 62);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(),
              ::testing::StartsWith(
                  folder.path() + ": a checkpoint takes 4611686018427387904 bytes, the disk has "));
}

TEST(DiskSpaceTest, WhatHasNoBlocksHasNoLimit) {
  EXPECT_TRUE(CheckDiskSpace("/proc", "a checkpoint", uint64_t{1} << 62).ok());
}

}  // namespace
}  // namespace lockstep::train::internal
