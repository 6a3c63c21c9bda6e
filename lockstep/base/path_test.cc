#include "lockstep/base/path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "lockstep/base/testing/temp_folder.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class PathTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(Path("file")) << "x";
    fs::create_directories(Path("folder/below"));
    fs::create_symlink(Path("file"), Path("to_file"));
    fs::create_directory_symlink(Path("folder"), Path("to_folder"));
    fs::create_symlink("nowhere", Path("dangling"));
    fs::create_symlink(Path("loop"), Path("loop"));
  }

  std::string Path(const std::string& name) const { return folder_.Path(name); }

  testing::TempFolder folder_;
};

TEST_F(PathTest, TheFolderOfAPath) {
  EXPECT_EQ(FolderOf("name"), ".");
  EXPECT_EQ(FolderOf("/name"), "/");
  EXPECT_EQ(FolderOf("a/b/c"), "a/b");
  EXPECT_EQ(FolderOf("/a/b"), "/a");
}

TEST_F(PathTest, TheSameFileByAnyName) {
  const auto same = [this](const std::string& a, const std::string& b) {
    EXPECT_EQ(SameFile(Path(a), Path(b)), SameFile(Path(b), Path(a)));
    return SameFile(Path(a), Path(b));
  };
  fs::create_hard_link(Path("file"), Path("hard"));
  EXPECT_TRUE(same("file", "file"));
  EXPECT_TRUE(same("file", "to_file"));
  EXPECT_TRUE(same("file", "hard"));
  EXPECT_TRUE(same("file", "folder/../file"));
  EXPECT_TRUE(same("folder", "to_folder"));
  EXPECT_FALSE(same("file", "folder"));
  EXPECT_FALSE(same("file", "none"));
  // What is yet to be made.
  EXPECT_TRUE(same("none", "none"));
  EXPECT_TRUE(same("none", "folder/../none"));
  EXPECT_TRUE(same("folder/none", "to_folder/none"));
  EXPECT_TRUE(same("folder/none/x", "to_folder/none/x"));
  EXPECT_FALSE(same("none", "folder/none"));
  EXPECT_FALSE(same("none", "other"));
  EXPECT_TRUE(SameFile("no/such/x", "no/such/x"));
  EXPECT_FALSE(SameFile("no/such/x", "no/other/x"));
  EXPECT_FALSE(SameFile("/no_such/x", "no_such/x"));
}

TEST_F(PathTest, WhatIsWrittenIsTheTargetOfALink) {
  EXPECT_EQ(*ResolveTarget(Path("file")), Path("file"));
  EXPECT_EQ(*ResolveTarget(Path("none")), Path("none"));
  EXPECT_EQ(*ResolveTarget(Path("to_file")), fs::canonical(Path("file")).string());
  EXPECT_EQ(ResolveTarget(Path("dangling")).status().ToString(),
            "NOT_FOUND: " + Path("dangling") + ": is a link to 'nowhere', which is not there");
  EXPECT_THAT(ResolveTarget(Path("loop")).status().message(), HasSubstr("Too many levels"));
  EXPECT_THAT(ResolveTarget(Path("folder")).status().message(), HasSubstr("is a directory"));
  EXPECT_THAT(ResolveTarget(Path("to_folder")).status().message(), HasSubstr("is a directory"));
}

// A link as /dev/stdout is one: to something that has no name of its own.
TEST_F(PathTest, ALinkToAnOpenPipeIsCalledAPipe) {
  int ends[2] = {};
  ASSERT_EQ(::pipe(ends), 0);
  const Status status = ResolveTarget("/proc/self/fd/" + std::to_string(ends[1])).status();
  EXPECT_THAT(status.message(), HasSubstr("is a pipe, socket or device, expected a regular file"));
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_F(PathTest, WhatIsNoFolderIsNamed) {
  EXPECT_TRUE(CheckFolder(Path("folder")).ok());
  EXPECT_TRUE(CheckFolder(Path("to_folder")).ok());
  EXPECT_EQ(CheckFolder(Path("none")).code(), StatusCode::kNotFound);
  EXPECT_EQ(CheckFolder(Path("file")).ToString(),
            "INVALID_ARGUMENT: " + Path("file") + ": is a file, expected a folder");
  EXPECT_THAT(CheckFolder("/dev/null").message(), HasSubstr("is a pipe, socket or device"));
  EXPECT_EQ(CheckFolder(Path("dangling")).ToString(),
            "NOT_FOUND: " + Path("dangling") + ": is a link to 'nowhere', which is not there");
  EXPECT_THAT(CheckFolder(Path("loop")).message(), HasSubstr("Too many levels"));
}

}  // namespace
}  // namespace lockstep
