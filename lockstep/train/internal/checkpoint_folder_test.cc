#include "lockstep/train/internal/checkpoint_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "lockstep/base/file.h"
#include "lockstep/base/testing/temp_folder.h"

namespace lockstep::train::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

class CheckpointFolderTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return folder_.Path(name); }

  const std::string& dir() const { return folder_.path(); }

  // A folder with a manifest of this content.
  void Make(const std::string& name, const std::string& content = "x") {
    fs::create_directories(Path(name));
    std::ofstream(Path(name) + "/manifest.json") << content;
  }

  std::string Manifest(const std::string& name) const {
    return ReadFile(Path(name) + "/manifest.json", 100).value();
  }

  std::vector<std::string> Names() const { return folder_.Names(); }

  testing::TempFolder folder_;
};

TEST_F(CheckpointFolderTest, Names) {
  EXPECT_EQ(StepName(0), "step-00000000");
  EXPECT_EQ(StepName(123), "step-00000123");
  EXPECT_EQ(StepName(1'234'567'890), "step-1234567890");
}

TEST_F(CheckpointFolderTest, ListsWhatHasAManifestNewestFirst) {
  Make("step-00000002");
  Make("step-00000010");
  Make("step-1234567890");
  Make("step-00000100.tmp");
  Make("step-100");
  Make("step-000000100");
  Make("step--0000001");
  Make("step-99999999999999999999");
  Make("step-0000002x");
  Make("other");
  fs::create_directories(Path("step-00000300"));
  EXPECT_THAT(*ListCheckpoints(dir()),
              ElementsAre("step-1234567890", "step-00000010", "step-00000002"));
  EXPECT_EQ(ListCheckpoints(Path("none")).status().ToString(),
            "NOT_FOUND: " + Path("none") + ": cannot list the folder: No such file or directory");
}

TEST_F(CheckpointFolderTest, WhatWasSetAsideCountsWhileNothingIsInItsPlace) {
  Make("step-00000002.replaced");
  Make("step-00000003.replaced");
  Make("step-00000003");
  EXPECT_THAT(*ListCheckpoints(dir()), ElementsAre("step-00000003", "step-00000002.replaced"));
}

TEST_F(CheckpointFolderTest, RecoveryRemovesAndPutsBack) {
  Make("step-00000001", "one");
  Make("step-00000001.tmp");
  Make("step-00000002.replaced", "two");
  Make("step-00000003.replaced", "old");
  Make("step-00000003", "new");
  Make("mine.tmp");
  std::ofstream(Path("latest.tmp-1-0")) << "x";
  RecoverFolder(dir());
  EXPECT_THAT(Names(), ElementsAre("mine.tmp", "step-00000001", "step-00000002", "step-00000003"));
  EXPECT_EQ(Manifest("step-00000002"), "two");
  EXPECT_EQ(Manifest("step-00000003"), "new");
}

TEST_F(CheckpointFolderTest, FoldersAreMadeWithThoseAbove) {
  MadeFolders made;
  EXPECT_TRUE(made.Make(Path("a/b/c/")).ok());
  EXPECT_TRUE(fs::is_directory(Path("a/b/c")));
  EXPECT_TRUE(made.Make(Path("a")).ok());
  std::ofstream(Path("file")) << "x";
  // Nothing is said twice.
  EXPECT_EQ(made.Make(Path("file")).ToString(),
            "INVALID_ARGUMENT: " + Path("file") + ": is a file, expected a folder");
  EXPECT_EQ(made.Make(Path("file/x")).ToString(),
            "INVALID_ARGUMENT: " + Path("file") +
                ": is a file, expected a folder [for the folder " + Path("file/x") + "]");
  fs::create_directory_symlink(Path("nowhere"), Path("dangling"));
  EXPECT_THAT(made.Make(Path("dangling")).message(),
              HasSubstr("is a link to '" + Path("nowhere") + "', which is not there"));
}

TEST_F(CheckpointFolderTest, MadeFoldersGoAgainUnlessTheyAreKept) {
  fs::create_directories(Path("old"));
  { EXPECT_TRUE(MadeFolders().Make(Path("old/a/b")).ok()); }
  EXPECT_FALSE(fs::exists(Path("old/a")));
  EXPECT_TRUE(fs::exists(Path("old")));
  {
    MadeFolders made;
    EXPECT_TRUE(made.Make(Path("old/a/b")).ok());
    made.Keep();
  }
  EXPECT_TRUE(fs::exists(Path("old/a/b")));
  {
    // What somebody else uses meanwhile stays.
    MadeFolders made;
    EXPECT_TRUE(made.Make(Path("shared/a")).ok());
    std::ofstream(Path("shared/file")) << "x";
  }
  EXPECT_TRUE(fs::exists(Path("shared/file")));
  EXPECT_FALSE(fs::exists(Path("shared/a")));
}

TEST_F(CheckpointFolderTest, EverythingWithTheNameOfACheckpointIsListed) {
  Make("step-00000002");
  fs::create_directories(Path("step-00000003"));
  std::ofstream(Path("step-00000004")) << "x";
  fs::create_directories(Path("step-00000005.tmp"));
  std::ofstream(Path("step-00000005.tmp/mine")) << "x";
  Make("step-00000006.tmp");
  Make("step-00000007.old-1");
  Make("step-00000002.replaced");
  const std::vector<StepEntry> entries = ListSteps(dir()).value();
  std::vector<std::string> names;
  for (const StepEntry& entry : entries) {
    names.push_back(entry.name + (entry.has_manifest ? "!" : ""));
  }
  EXPECT_THAT(names,
              ElementsAre("step-00000005.tmp", "step-00000004", "step-00000003", "step-00000002!"));
}

TEST_F(CheckpointFolderTest, RecoveryLeavesFilesOfOthers) {
  for (const char* name : {"step-00000001.tmp", "step-00000002.replaced"}) {
    Make(name);
    std::ofstream(Path(name) + "/mine.txt") << "x";
  }
  Make("step-00000002");
  std::ofstream(Path("step-00000003.tmp")) << "a file";
  const std::vector<std::string> before = Names();
  RecoverFolder(dir());
  EXPECT_EQ(Names(), before);
  EXPECT_TRUE(fs::exists(Path("step-00000001.tmp/mine.txt")));
  EXPECT_TRUE(fs::exists(Path("step-00000002.replaced/mine.txt")));
}

TEST_F(CheckpointFolderTest, ASingleCheckpointHoldsNone) {
  Make("run/step-00000007");
  Make("bundle");
  EXPECT_TRUE(CheckHoldsCheckpoints(Path("run")).ok());
  EXPECT_TRUE(CheckHoldsCheckpoints(Path("run/")).ok());
  EXPECT_TRUE(CheckHoldsCheckpoints(Path("run/other")).ok());
  for (const std::string& path : {Path("run/step-00000007"), Path("run/step-00000007/"),
                                  Path("run/step-00000008"), Path("run/./step-00000007//")}) {
    const Status status = CheckHoldsCheckpoints(path);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << path;
    EXPECT_THAT(status.message(), HasSubstr("the folder that holds them, such as " + Path("run")));
  }
  EXPECT_THAT(CheckHoldsCheckpoints(Path("run/step-00000007/a/b")).message(),
              HasSubstr("this is inside of the checkpoint " + Path("run/step-00000007")));
  EXPECT_THAT(CheckHoldsCheckpoints(Path("bundle")).message(),
              HasSubstr("holds a manifest.json as a single checkpoint"));
}

TEST_F(CheckpointFolderTest, AStagedFolderTakesItsNameOrVanishes) {
  {
    Result<StagedFolder> staged = StagedFolder::Create(dir(), 7);
    ASSERT_TRUE(staged.ok());
    EXPECT_EQ(staged->path(), Path("step-00000007.tmp"));
    Make("step-00000007.tmp", "gone");
  }
  EXPECT_THAT(Names(), IsEmpty());
  {
    Result<StagedFolder> staged = StagedFolder::Create(dir(), 7);
    ASSERT_TRUE(staged.ok());
    Make("step-00000007.tmp", "new");
    EXPECT_EQ(*staged->Commit(), Path("step-00000007"));
  }
  EXPECT_THAT(Names(), ElementsAre("step-00000007"));
  EXPECT_EQ(Manifest("step-00000007"), "new");
}

TEST_F(CheckpointFolderTest, AStagedFolderReplacesTheOldOne) {
  Make("step-00000007", "old");
  std::ofstream(Path("step-00000007/old")) << "x";
  {
    Result<StagedFolder> staged = StagedFolder::Create(dir(), 7);
    ASSERT_TRUE(staged.ok());
    Make("step-00000007.tmp", "new");
    EXPECT_EQ(Manifest("step-00000007"), "old");
    ASSERT_TRUE(staged->Commit().ok());
  }
  EXPECT_THAT(Names(), ElementsAre("step-00000007"));
  EXPECT_EQ(Manifest("step-00000007"), "new");
  EXPECT_FALSE(fs::exists(Path("step-00000007/old")));
}

TEST_F(CheckpointFolderTest, AFileInThePlaceIsLeftAlone) {
  std::ofstream(Path("step-00000007")) << "x";
  Result<StagedFolder> staged = StagedFolder::Create(dir(), 7);
  ASSERT_TRUE(staged.ok());
  EXPECT_THAT(staged->Commit().status().message(), HasSubstr("cannot put the checkpoint"));
  EXPECT_TRUE(fs::is_regular_file(Path("step-00000007")));
}

TEST_F(CheckpointFolderTest, ReplacesInTwoStepsToo) {
  Make("new", "new");
  Make("step", "old");
  EXPECT_TRUE(ReplaceInTwoSteps(Path("new"), Path("step"), Path("aside"), dir()).ok());
  EXPECT_THAT(Names(), ElementsAre("step"));
  EXPECT_EQ(Manifest("step"), "new");
  // The second step fails.
  EXPECT_EQ(ReplaceInTwoSteps(Path("none"), Path("step"), Path("aside"), dir()).code(),
            StatusCode::kNotFound);
  EXPECT_THAT(Names(), ElementsAre("step"));
  EXPECT_EQ(Manifest("step"), "new");
}

TEST_F(CheckpointFolderTest, Latest) {
  EXPECT_EQ(ReadLatest(dir()).status().code(), StatusCode::kNotFound);
  ASSERT_TRUE(WriteLatest(dir(), 12).ok());
  EXPECT_EQ(ReadFile(Path("latest"), 100).value(), "step-00000012\n");
  EXPECT_EQ(*ReadLatest(dir()), "step-00000012");
  for (const std::string& bad :
       {std::string(), std::string("step-00000012"), std::string("../step-00000012\n"),
        std::string("step-12\n"), std::string(1000, 'x')}) {
    std::ofstream(Path("latest")) << bad;
    EXPECT_EQ(ReadLatest(dir()).status().code(), StatusCode::kDataLoss) << bad;
    EXPECT_THAT(ReadLatest(dir()).status().message(), HasSubstr(Path("latest")));
  }
  fs::remove(Path("latest"));
  fs::create_directories(Path("latest"));
  EXPECT_EQ(ReadLatest(dir()).status().code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace lockstep::train::internal
