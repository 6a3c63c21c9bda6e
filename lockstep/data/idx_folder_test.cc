#include "lockstep/data/idx_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <numeric>

#include "lockstep/base/file.h"
#include "lockstep/base/testing/gzip_writer.h"
#include "lockstep/base/testing/temp_folder.h"

namespace lockstep::data {
namespace {

using ::testing::HasSubstr;

std::string BigEndian32(size_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

std::string Images(size_t count, size_t height, size_t width) {
  return std::string("\0\0\x08\x03", 4) + BigEndian32(count) + BigEndian32(height) +
         BigEndian32(width) + std::string(count * height * width, '\x33');
}

std::string Labels(const std::string& labels) {
  return std::string("\0\0\x08\x01", 4) + BigEndian32(labels.size()) + labels;
}

// A folder with two training and one test image of 28 x 28; tests spoil it.
class IdxFolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Write("train-images-idx3-ubyte", Images(2, 28, 28));
    Write("train-labels-idx1-ubyte", Labels("\x01\x09"));
    Write("t10k-images-idx3-ubyte", Images(1, 28, 28));
    Write("t10k-labels-idx1-ubyte", Labels("\x02"));
  }

  void Write(const std::string& name, const std::string& content) {
    ASSERT_TRUE(WriteFileAtomic(folder_.Path(name), content).ok());
  }

  void Rename(const std::string& from, const std::string& to) {
    std::filesystem::rename(folder_.Path(from), folder_.Path(to));
  }

  std::string MnistError() const { return LoadMnist(folder_.path()).status().message(); }

  lockstep::testing::TempFolder folder_;
};

TEST_F(IdxFolderTest, AFileByTwoNamesIsAWarning) {
  EXPECT_TRUE(LoadMnist(folder_.path())->warnings.empty());
  Write("t10k-labels.idx1-ubyte", Labels("\x03"));
  Write("t10k-labels-idx1-ubyte.gz", lockstep::testing::Compress(Labels("\x04")));
  const std::string read = folder_.Path("t10k-labels-idx1-ubyte");
  const std::vector<std::string> expected = {
      read + ".gz is not read, because " + read + " is there",
      folder_.Path("t10k-labels.idx1-ubyte") + " is not read, because " + read + " is there"};
  const Dataset dataset = LoadMnist(folder_.path()).value();
  EXPECT_EQ(dataset.warnings, expected);
  EXPECT_EQ(dataset.test.labels().values<int32_t>()[0], 2);
  EXPECT_EQ(DescribeIdxFolder(folder_.path())->warnings, expected);
}

TEST_F(IdxFolderTest, AllNamesOfFilesAreKnown) {
  const std::vector<std::string> files = IdxFolderFiles("folder");
  EXPECT_EQ(files.size(), 16U);
  EXPECT_EQ(files[0], "folder/train-images-idx3-ubyte");
  EXPECT_EQ(files[15], "folder/t10k-labels.idx1-ubyte.gz");
}

TEST_F(IdxFolderTest, AStopIsSeen) {
  EXPECT_EQ(LoadMnist(folder_.path(), [] { return true; }).status().code(), StatusCode::kCancelled);
}

TEST_F(IdxFolderTest, Loads) {
  const Dataset dataset = LoadMnist(folder_.path()).value();
  EXPECT_EQ(dataset.sample_shape, (Shape{28, 28, 1}));
  EXPECT_EQ(dataset.num_classes, 10);
  EXPECT_EQ(dataset.train.size(), 2);
  EXPECT_EQ(dataset.test.size(), 1);
  EXPECT_EQ(dataset.train.features().dtype(), DType::kUInt8);
  EXPECT_EQ(dataset.train.labels().values<int32_t>()[1], 9);
}

TEST_F(IdxFolderTest, AcceptsTheOtherNames) {
  Rename("train-images-idx3-ubyte", "train-images.idx3-ubyte");
  Write("train-labels.idx1-ubyte.gz", lockstep::testing::Compress(Labels("\x01\x09")));
  std::filesystem::remove(folder_.Path("train-labels-idx1-ubyte"));
  Rename("t10k-images-idx3-ubyte", "t10k-images-idx3-ubyte.gz");
  EXPECT_TRUE(LoadMnist(folder_.path()).ok());
}

TEST_F(IdxFolderTest, OtherSizesAndClassesAreForTheGeneralLoader) {
  Write("train-images-idx3-ubyte", Images(2, 5, 4));
  EXPECT_THAT(MnistError(), HasSubstr("has images of 5 x 4 pixels but"));
  Write("t10k-images-idx3-ubyte", Images(1, 5, 4));
  EXPECT_EQ(MnistError(), folder_.path() + ": images of 5 x 4 pixels, MNIST has 28 x 28");
  EXPECT_EQ(LoadIdxFolder(folder_.path(), 0)->num_classes, 10);
  EXPECT_EQ(LoadIdxFolder(folder_.path(), 12)->num_classes, 12);
  EXPECT_EQ(LoadIdxFolder(folder_.path(), 5).status().message(),
            folder_.Path("train-labels-idx1-ubyte") + ": sample 1 has label 9, allowed are 0 to 4");
}

TEST_F(IdxFolderTest, CountsMustAgree) {
  Write("train-labels-idx1-ubyte", Labels("\x01"));
  EXPECT_EQ(MnistError(), folder_.Path("train-images-idx3-ubyte") + " has 2 images but " +
                              folder_.Path("train-labels-idx1-ubyte") + " has 1 label");
}

TEST_F(IdxFolderTest, LabelsMustBeInRange) {
  Write("t10k-labels-idx1-ubyte", Labels("\x0a"));
  const Status status = LoadMnist(folder_.path()).status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_EQ(status.message(),
            folder_.Path("t10k-labels-idx1-ubyte") + ": sample 0 has label 10, allowed are 0 to 9");
}

TEST_F(IdxFolderTest, FilesMustHoldWhatTheirNameSays) {
  Write("train-images-idx3-ubyte", Labels("\x01\x02"));
  EXPECT_THAT(MnistError(), HasSubstr("uint8 [2], images are unsigned bytes with 3 dimensions"));
  // Also where the rest is what it should be.
  std::string images = Images(2, 28, 28);
  images[3] = 1;
  Write("train-images-idx3-ubyte", images);
  EXPECT_EQ(MnistError(), folder_.Path("train-images-idx3-ubyte") +
                              ": offset 2: uint8 [2], images are unsigned bytes with 3 dimensions "
                              "(magic number 00 00 08 03)");
  Write("train-images-idx3-ubyte", lockstep::testing::Compress(images));
  EXPECT_THAT(MnistError(), HasSubstr("(decompressed): offset 2: uint8 [2], images are"));
  Write("train-images-idx3-ubyte", Images(0, 28, 28));
  EXPECT_THAT(MnistError(), HasSubstr("[0, 28, 28] holds no pixel"));
  Write("train-labels-idx1-ubyte", Images(1, 2, 3));
  EXPECT_THAT(MnistError(), HasSubstr("labels are unsigned bytes with 1 dimension"));
}

TEST_F(IdxFolderTest, MissingFilesAreNamed) {
  std::filesystem::remove(folder_.Path("t10k-labels-idx1-ubyte"));
  EXPECT_EQ(MnistError(),
            folder_.path() +
                ": none of the files t10k-labels-idx1-ubyte, t10k-labels-idx1-ubyte.gz, "
                "t10k-labels.idx1-ubyte, t10k-labels.idx1-ubyte.gz is there");
  EXPECT_EQ(
      LoadMnist(folder_.Path("none")).status().message(),
      folder_.Path("none") + ": cannot open the folder with IDX files: No such file or directory");
  EXPECT_EQ(
      LoadMnist(folder_.Path("train-images-idx3-ubyte")).status().message(),
      folder_.Path("train-images-idx3-ubyte") + ": not a folder, expected one with IDX files");
}

TEST_F(IdxFolderTest, LinksThatLeadNowhereAreNotMissingFiles) {
  const std::string loop = folder_.Path("loop");
  std::filesystem::create_symlink(loop, loop);
  EXPECT_EQ(LoadMnist(loop).status().message(),
            loop + ": cannot open the folder with IDX files: Too many levels of symbolic links");
  const std::string labels = folder_.Path("t10k-labels-idx1-ubyte");
  std::filesystem::remove(labels);
  std::filesystem::create_symlink(labels, labels);
  EXPECT_EQ(MnistError(), labels + ": cannot open: Too many levels of symbolic links");
}

TEST_F(IdxFolderTest, ADescriptionIsThatOfTheLoadedData) {
  Write("train-images-idx3-ubyte", Images(2, 5, 4));
  Write("t10k-images-idx3-ubyte", Images(1, 5, 4));
  Write("t10k-labels-idx1-ubyte", Labels("\x0b"));
  for (const bool packed : {false, true}) {
    if (packed) {
      Write("train-images-idx3-ubyte", lockstep::testing::Compress(Images(2, 5, 4)));
    }
    const Dataset loaded = LoadIdxFolder(folder_.path(), 0).value();
    const Result<Dataset> described = DescribeIdxFolder(folder_.path());
    ASSERT_TRUE(described.ok()) << described.status().ToString();
    EXPECT_EQ(described->sample_shape, loaded.sample_shape);
    EXPECT_EQ(described->num_classes, loaded.num_classes);
    EXPECT_EQ(described->num_classes, 12);
    EXPECT_EQ(described->name, loaded.name);
    EXPECT_EQ(described->train.size(), 0);
  }
  // Of the images it reads the beginning alone.
  Write("train-images-idx3-ubyte", Images(2, 5, 4).substr(0, 16));
  EXPECT_TRUE(DescribeIdxFolder(folder_.path()).ok());
  EXPECT_FALSE(LoadIdxFolder(folder_.path(), 0).ok());
  Write("train-images-idx3-ubyte", Labels("\x01\x02"));
  EXPECT_THAT(DescribeIdxFolder(folder_.path()).status().message(),
              HasSubstr("images are unsigned bytes with 3 dimensions"));
  EXPECT_THAT(DescribeIdxFolder(folder_.Path("none")).status().message(),
              HasSubstr("No such file or directory"));
}

TEST_F(IdxFolderTest, TheDescriptionOfMnistNeedsNoFile) {
  const Dataset loaded = LoadMnist(folder_.path()).value();
  const Dataset described = DescribeMnist("nowhere");
  EXPECT_EQ(described.sample_shape, loaded.sample_shape);
  EXPECT_EQ(described.num_classes, loaded.num_classes);
}

TEST(MnistFilesTest, TheShippedDigitsAreWhatTheirReadmeSays) {
  const Dataset dataset = LoadMnist(LS_SOURCE_DIR "/data/mnist").value();
  ASSERT_EQ(dataset.train.size(), 8000);
  ASSERT_EQ(dataset.test.size(), 2000);
  // Every class makes up about a tenth.
  std::array<int, 10> counts{};
  for (const int32_t label : dataset.train.labels().values<int32_t>()) {
    ++counts[static_cast<size_t>(label)];
  }
  for (const int count : counts) {
    EXPECT_GT(count, 600);
    EXPECT_LT(count, 1000);
  }
  // The mean pixel of MNIST is known to be about 0.13.
  std::vector<float> features(100 * 784);
  std::vector<int32_t> labels(100);
  std::vector<uint32_t> indices(100);
  std::iota(indices.begin(), indices.end(), 0U);
  dataset.train.Gather(indices, features.data(), labels.data());
  const double mean = std::accumulate(features.begin(), features.end(), 0.0) / (100 * 784);
  EXPECT_NEAR(mean, 0.13, 0.02);
}

}  // namespace
}  // namespace lockstep::data
