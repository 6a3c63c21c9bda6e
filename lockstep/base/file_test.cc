#include "lockstep/base/file.h"

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

class FileTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return folder_.Path(name); }

  size_t Entries() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()));
  }

  testing::TempFolder folder_;
};

TEST_F(FileTest, ReadsBackWhatWasWritten) {
  const std::string content("a\0b\n\xff", 5);
  ASSERT_TRUE(WriteFileAtomic(Path("x"), content).ok());
  EXPECT_EQ(ReadFile(Path("x"), 5).value(), content);
  ASSERT_TRUE(WriteFileAtomic(Path("x"), "").ok());
  EXPECT_EQ(ReadFile(Path("x"), 0).value(), "");
  EXPECT_EQ(Entries(), 1U);
}

TEST_F(FileTest, ReadsFilesLargerThanOneChunk) {
  std::string content(3 * 1000 * 1000 + 7, '\0');
  for (size_t i = 0; i < content.size(); ++i) {
    content[i] = static_cast<char>(i * 31 >> 3);
  }
  ASSERT_TRUE(WriteFileAtomic(Path("x"), content).ok());
  EXPECT_TRUE(ReadFile(Path("x"), content.size()).value() == content);
}

TEST_F(FileTest, ReadsFilesWhoseSizeIsNotKnownBeforehand) {
  // Files of /proc say that they are empty.
  EXPECT_THAT(ReadFile("/proc/self/status", 1 << 20).value(), HasSubstr("Pid:"));
  EXPECT_EQ(ReadFile("/proc/self/status", 10).status().code(), StatusCode::kOutOfRange);
}

TEST_F(FileTest, TheLimitIsExact) {
  ASSERT_TRUE(WriteFileAtomic(Path("x"), "12345").ok());
  EXPECT_TRUE(ReadFile(Path("x"), 5).ok());
  EXPECT_EQ(ReadFile(Path("x"), 4).status().ToString(),
            "OUT_OF_RANGE: " + Path("x") + ": 5 bytes, at most 4 are allowed");
}

TEST_F(FileTest, ErrorsNameThePathAndTheReason) {
  EXPECT_EQ(ReadFile(Path("none"), 1).status().ToString(),
            "NOT_FOUND: " + Path("none") + ": cannot open: No such file or directory");
  EXPECT_EQ(ReadFile(folder_.path(), 1).status().ToString(),
            "INVALID_ARGUMENT: " + folder_.path() + ": is a directory, expected a regular file");
  EXPECT_EQ(ReadFile("", 1).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadFile(std::string("a\0b", 3), 1).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(WriteFileAtomic(Path("no/such/x"), "a").code(), StatusCode::kNotFound);
}

TEST_F(FileTest, PipesAndDevicesAreRefusedWithoutWaiting) {
  ASSERT_EQ(::mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(ReadFile(Path("pipe"), 1).status().message(), HasSubstr("is a pipe"));
  EXPECT_THAT(WriteFileAtomic(Path("pipe"), "a").message(), HasSubstr("is a pipe"));
  EXPECT_THAT(ReadFile("/dev/zero", 1).status().message(), HasSubstr("device"));
  EXPECT_EQ(WriteFileAtomic("/dev/null", "a").code(), StatusCode::kInvalidArgument);
}

TEST_F(FileTest, AFailedWriteLeavesNothingBehind) {
  ASSERT_TRUE(fs::create_directory(Path("x")));
  EXPECT_THAT(WriteFileAtomic(Path("x"), "a").message(), HasSubstr("is a directory"));
  EXPECT_EQ(Entries(), 1U);
}

TEST_F(FileTest, ALinkIsFollowed) {
  ASSERT_TRUE(WriteFileAtomic(Path("target"), "old").ok());
  fs::create_symlink("target", Path("link"));
  ASSERT_TRUE(WriteFileAtomic(Path("link"), "new").ok());
  EXPECT_EQ(ReadFile(Path("target"), 3).value(), "new");
  EXPECT_TRUE(fs::is_symlink(Path("link")));
  fs::create_symlink("nowhere", Path("broken"));
  EXPECT_EQ(WriteFileAtomic(Path("broken"), "a").code(), StatusCode::kNotFound);
}

TEST_F(FileTest, LeftOversOfACrashDoNotStandInTheWay) {
  const std::string stale = Path("x") + ".tmp-" + std::to_string(::getpid()) + "-0";
  std::ofstream(stale) << "half";
  ASSERT_TRUE(WriteFileAtomic(Path("x"), "whole").ok());
  EXPECT_EQ(ReadFile(Path("x"), 5).value(), "whole");
  EXPECT_EQ(ReadFile(stale, 5).value(), "half");
}

}  // namespace
}  // namespace lockstep
