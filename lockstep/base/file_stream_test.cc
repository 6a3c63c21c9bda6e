#include "lockstep/base/file_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <optional>

#include "lockstep/base/file.h"
#include "lockstep/base/testing/temp_folder.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

class FileStreamTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return folder_.Path(name); }

  testing::TempFolder folder_;
};

TEST_F(FileStreamTest, PiecesComeBack) {
  Result<OutputFile> out = OutputFile::Create(Path("x"));
  ASSERT_TRUE(out.ok());
  EXPECT_TRUE(out->Append("abc", 3).ok());
  EXPECT_TRUE(out->Append(nullptr, 0).ok());
  EXPECT_TRUE(out->Append("\0d", 2).ok());
  EXPECT_EQ(out->size(), 5U);
  ASSERT_TRUE(out->Finish().ok());
  EXPECT_EQ(ReadFile(Path("x"), 100).value(), std::string("abc\0d", 5));

  const Result<InputFile> in = InputFile::Open(Path("x"));
  ASSERT_TRUE(in.ok());
  EXPECT_EQ(in->size(), 5U);
  std::string middle(3, ' ');
  EXPECT_TRUE(in->ReadAt(1, middle.data(), middle.size()).ok());
  EXPECT_EQ(middle, std::string("bc\0", 3));
  EXPECT_TRUE(in->ReadAt(5, nullptr, 0).ok());
}

TEST_F(FileStreamTest, AFileThatIsNotFinishedIsRemoved) {
  {
    Result<OutputFile> out = OutputFile::Create(Path("x"));
    ASSERT_TRUE(out.ok());
    ASSERT_TRUE(out->Append("abc", 3).ok());
    EXPECT_TRUE(std::filesystem::exists(Path("x")));
  }
  EXPECT_FALSE(std::filesystem::exists(Path("x")));
}

TEST_F(FileStreamTest, AMovedFileIsKept) {
  std::optional<OutputFile> kept;
  {
    Result<OutputFile> out = OutputFile::Create(Path("x"));
    ASSERT_TRUE(out.ok());
    kept.emplace(std::move(out).value());
  }
  ASSERT_TRUE(kept->Append("abc", 3).ok());
  EXPECT_TRUE(kept->Finish().ok());
  EXPECT_EQ(ReadFile(Path("x"), 100).value(), "abc");
}

TEST_F(FileStreamTest, AnExistingFileIsNotOverwritten) {
  ASSERT_TRUE(WriteFileAtomic(Path("x"), "old").ok());
  EXPECT_EQ(OutputFile::Create(Path("x")).status().ToString(),
            "ALREADY_EXISTS: " + Path("x") + ": cannot create: File exists");
  EXPECT_EQ(ReadFile(Path("x"), 100).value(), "old");
}

TEST_F(FileStreamTest, AFullDiskIsAnErrorWithTheOffset) {
  // A limit of the file size stands for the disk: the system call fails in the same way.
  ASSERT_NE(std::signal(SIGXFSZ, SIG_IGN), SIG_ERR);
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 1000;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  Status status;
  {
    Result<OutputFile> out = OutputFile::Create(Path("x"));
    ASSERT_TRUE(out.ok());
    const std::string piece(700, 'a');
    EXPECT_TRUE(out->Append(piece.data(), piece.size()).ok());
    status = out->Append(piece.data(), piece.size());
  }
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(status.ToString(),
            "RESOURCE_EXHAUSTED: " + Path("x") + ": cannot write at offset 1000: File too large");
  EXPECT_FALSE(std::filesystem::exists(Path("x")));
}

TEST_F(FileStreamTest, AShortFileIsDamage) {
  ASSERT_TRUE(WriteFileAtomic(Path("x"), "12345").ok());
  const Result<InputFile> in = InputFile::Open(Path("x"));
  ASSERT_TRUE(in.ok());
  std::string buffer(10, ' ');
  EXPECT_EQ(in->ReadAt(2, buffer.data(), 7).ToString(),
            "DATA_LOSS: " + Path("x") + ": ends at offset 5, 4 more bytes were expected");
  EXPECT_EQ(in->ReadAt(100, buffer.data(), 1).code(), StatusCode::kDataLoss);
}

TEST_F(FileStreamTest, OnlyRegularFilesAreOpened) {
  EXPECT_EQ(InputFile::Open(Path("none")).status().ToString(),
            "NOT_FOUND: " + Path("none") + ": cannot open: No such file or directory");
  EXPECT_THAT(InputFile::Open(folder_.path()).status().ToString(), HasSubstr("is a directory"));
  EXPECT_EQ(InputFile::Open("/dev/zero").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(OutputFile::Create("").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(OutputFile::Create(Path("none/x")).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace lockstep
