#include "lockstep/train/internal/path_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>
#include <vector>

#include "lockstep/base/testing/temp_folder.h"

namespace lockstep::train::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

class PathLockTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return folder_.Path(name); }

  const std::string& dir() const { return folder_.path(); }

  // Not every system tells who holds a lock.
  static std::string HeldBySelf() {
    return ": another run(, process " + std::to_string(::getpid()) + ",)? writes its ";
  }

  lockstep::testing::TempFolder folder_;
};

TEST_F(PathLockTest, AFolderIsForOne) {
  std::optional<PathLock> lock(PathLock::OnFolder(dir()).value());
  const Status status = PathLock::OnFolder(dir()).status();
  EXPECT_EQ(status.code(), StatusCode::kAborted);
  EXPECT_THAT(status.message(),
              ::testing::MatchesRegex(dir() + HeldBySelf() + "checkpoints to this folder: .*"));
  EXPECT_THAT(folder_.Names(), IsEmpty());
  lock.reset();
  EXPECT_TRUE(PathLock::OnFolder(dir()).ok());
  EXPECT_EQ(PathLock::OnFolder(Path("none")).status().code(), StatusCode::kNotFound);
}

TEST_F(PathLockTest, KnowsWhenItsFolderHasGone) {
  fs::create_directories(Path("run"));
  const Result<PathLock> lock = PathLock::OnFolder(Path("run"));
  ASSERT_TRUE(lock.ok());
  EXPECT_TRUE(lock->CheckStillAt(Path("run")).ok());
  fs::rename(Path("run"), Path("moved"));
  EXPECT_EQ(lock->CheckStillAt(Path("run")).code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(lock->CheckStillAt(Path("moved")).ok());
  fs::create_directories(Path("run"));
  EXPECT_THAT(lock->CheckStillAt(Path("run")).message(), HasSubstr("was moved or removed"));
}

TEST_F(PathLockTest, AFileIsForOneWhetherItIsThereOrNot) {
  std::optional<PathLock> lock(PathLock::OnFile(Path("s.json")).value());
  EXPECT_THAT(folder_.Names(), ElementsAre(".s.json.lock"));
  // Also once it has been replaced, and by another way to its folder.
  std::ofstream(Path("s.json")) << "x";
  fs::create_directory_symlink(dir(), Path("link"));
  for (const std::string& path : {Path("s.json"), Path("link/s.json")}) {
    const Status status = PathLock::OnFile(path).status();
    EXPECT_EQ(status.code(), StatusCode::kAborted);
    EXPECT_THAT(status.message(),
                ::testing::MatchesRegex(path + HeldBySelf() + "summary to this file: .*"));
  }
  EXPECT_TRUE(PathLock::OnFile(Path("other.json")).ok());
  lock.reset();
  EXPECT_THAT(folder_.Names(), ElementsAre("link", "s.json"));
}

TEST_F(PathLockTest, WhatAKilledProcessLeftIsTakenOver) {
  std::ofstream(Path(".s.json.lock")) << "";
  { EXPECT_TRUE(PathLock::OnFile(Path("s.json")).ok()); }
  EXPECT_THAT(folder_.Names(), IsEmpty());
}

TEST_F(PathLockTest, WhatIsNoFileIsNotWaitedFor) {
  ASSERT_EQ(::mkfifo(Path(".pipe.lock").c_str(), 0600), 0);
  { EXPECT_TRUE(PathLock::OnFile(Path("pipe")).ok()); }
  fs::create_directories(Path(".folder.lock"));
  EXPECT_THAT(PathLock::OnFile(Path("folder")).status().message(),
              HasSubstr("cannot make the lock '" + Path(".folder.lock") + "'"));
  fs::create_symlink(Path("elsewhere"), Path(".link.lock"));
  EXPECT_FALSE(PathLock::OnFile(Path("link")).ok());
  EXPECT_FALSE(fs::exists(Path("elsewhere")));
}

TEST_F(PathLockTest, NeverTwoAtATime) {
  std::atomic<int> holders = 0;
  std::atomic<bool> shared = false;
  std::atomic<int> taken = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < 200; ++turn) {
        const Result<PathLock> lock = PathLock::OnFile(Path("s.json"));
        if (lock.ok()) {
          ++taken;
          if (++holders > 1) {
            shared = true;
          }
          --holders;
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_FALSE(shared);
  EXPECT_GE(taken, 1);
  EXPECT_THAT(folder_.Names(), IsEmpty());
}

}  // namespace
}  // namespace lockstep::train::internal
