#include "lockstep/train/summary_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "lockstep/base/file.h"
#include "lockstep/base/testing/temp_folder.h"

namespace lockstep::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

class SummaryFileTest : public ::testing::Test {
 protected:
  SummaryFileTest() : path_(folder_.Path("s.json")) {}

  std::string Content() const { return ReadFile(path_, 1 << 20).value(); }

  lockstep::testing::TempFolder folder_;
  const std::string path_;
};

TEST_F(SummaryFileTest, IsThereOnceItIsWritten) {
  {
    const auto file = SummaryFile::Open(path_);
    ASSERT_TRUE(file.ok());
    EXPECT_FALSE(fs::exists(path_));
    EXPECT_EQ(SummaryFile::Open(path_).status().code(), StatusCode::kAborted);
    ASSERT_TRUE((*file)->Write(Summary()).ok());
    EXPECT_EQ(Content(), SummaryJson(Summary()));
    EXPECT_EQ(SummaryFile::Open(path_).status().code(), StatusCode::kAborted);
  }
  EXPECT_THAT(folder_.Names(), ElementsAre("s.json"));
}

TEST_F(SummaryFileTest, WithoutAWriteNothingStays) {
  { EXPECT_TRUE(SummaryFile::Open(path_).ok()); }
  EXPECT_THAT(folder_.Names(), IsEmpty());
  EXPECT_EQ(SummaryFile::Open(folder_.Path("no/s.json")).status().code(), StatusCode::kNotFound);
}

TEST_F(SummaryFileTest, ReplacesASummaryAndAnEmptyFile) {
  Summary older;
  older.model = "older";
  for (const std::string& before : {SummaryJson(older), std::string()}) {
    std::ofstream(path_, std::ios::trunc) << before;
    const auto file = SummaryFile::Open(path_);
    ASSERT_TRUE(file.ok());
    EXPECT_EQ(Content(), before);
    EXPECT_TRUE((*file)->Write(Summary()).ok());
    EXPECT_EQ(Content(), SummaryJson(Summary()));
  }
}

TEST_F(SummaryFileTest, ReplacesNothingElse) {
  for (const std::string& before :
       {std::string("notes\n"),
        std::string("\x7f"
                    "ELF"),
        std::string("{}"), std::string("[1]"), std::string(R"({"model": "mlp"})"), std::string(" "),
        std::string(100'000, '['), std::string("\0\0", 2), SummaryJson(Summary()) + "x"}) {
    std::ofstream(path_, std::ios::trunc) << before;
    const Status status = SummaryFile::Open(path_).status();
    EXPECT_EQ(status.code(), StatusCode::kAlreadyExists) << before.substr(0, 100);
    EXPECT_THAT(status.message(), HasSubstr(path_ + ": is there, and is no summary"));
    EXPECT_EQ(Content(), before);
    EXPECT_THAT(folder_.Names(), ElementsAre("s.json"));
  }
}

TEST_F(SummaryFileTest, WhatGetsThereMeanwhileStays) {
  const auto file = SummaryFile::Open(path_);
  ASSERT_TRUE(file.ok());
  std::ofstream(path_) << "notes\n";
  EXPECT_EQ((*file)->Write(Summary()).code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(Content(), "notes\n");
}

TEST_F(SummaryFileTest, TwoLinksToAFileAreThatFile) {
  std::ofstream(path_) << "";
  fs::create_symlink(path_, folder_.Path("a"));
  fs::create_symlink("s.json", folder_.Path("b"));
  const auto file = SummaryFile::Open(folder_.Path("a"));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(SummaryFile::Open(folder_.Path("b")).status().code(), StatusCode::kAborted);
  EXPECT_TRUE((*file)->Write(Summary()).ok());
  EXPECT_TRUE(fs::is_symlink(folder_.Path("a")));
  EXPECT_EQ(Content(), SummaryJson(Summary()));
}

TEST_F(SummaryFileTest, ANameThatLeavesNoRoomIsRefused) {
  EXPECT_TRUE(SummaryFile::Open(folder_.Path(std::string(200, 'n'))).ok());
  EXPECT_EQ(SummaryFile::Open(folder_.Path(std::string(201, 'n'))).status().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::train
