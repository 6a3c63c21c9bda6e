#include "lockstep/data/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/file.h"
#include "lockstep/base/testing/gzip_writer.h"
#include "lockstep/base/testing/temp_folder.h"

namespace lockstep::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string BigEndian32(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

std::string Idx(char type, const std::vector<uint32_t>& dims, std::string_view elements) {
  std::string content = {'\0', '\0', type, static_cast<char>(dims.size())};
  for (const uint32_t dim : dims) {
    content += BigEndian32(dim);
  }
  return content + std::string(elements);
}

// 2 x 3 unsigned bytes.
std::string SmallFile() {
  return Idx('\x08', {2, 3}, "\x01\x02\x03\xfd\xfe\xff");
}

constexpr size_t kSmallHeaderBytes = 12;

Status ParseStatus(const std::string& content) {
  return ParseIdx(content, "f").status();
}

TEST(IdxTest, ReadsUnsignedBytes) {
  const Tensor tensor = ParseIdx(SmallFile(), "f").value();
  EXPECT_EQ(tensor.shape(), (Shape{2, 3}));
  EXPECT_THAT(tensor.values<uint8_t>(), ElementsAre(1, 2, 3, 253, 254, 255));
}

TEST(IdxTest, ReadsTheOtherTypes) {
  EXPECT_THAT(ParseIdx(Idx('\x09', {2}, "\x01\xff"), "f")->values<int32_t>(), ElementsAre(1, -1));
  EXPECT_THAT(
      ParseIdx(Idx('\x0b', {2}, std::string("\x01\x00\xff\xfe", 4)), "f")->values<int32_t>(),
      ElementsAre(256, -2));
  EXPECT_THAT(ParseIdx(Idx('\x0c', {2}, BigEndian32(70000) + BigEndian32(0x80000000)), "f")
                  ->values<int32_t>(),
              ElementsAre(70000, INT32_MIN));
  EXPECT_THAT(ParseIdx(Idx('\x0d', {1}, BigEndian32(0xC0490FDB)), "f")->values<float>(),
              ElementsAre(-3.14159274F));
  EXPECT_THAT(
      ParseIdx(Idx('\x0e', {1}, BigEndian32(0x3FF80000) + BigEndian32(0)), "f")->values<double>(),
      ElementsAre(1.5));
}

TEST(IdxTest, ReadsEmptyArrays) {
  EXPECT_EQ(ParseIdx(Idx('\x08', {0, 28, 28}, ""), "f")->shape(), (Shape{0, 28, 28}));
}

TEST(IdxTest, EveryTruncationIsAnError) {
  const std::string whole = SmallFile();
  for (size_t size = 0; size < whole.size(); ++size) {
    const Status status = ParseStatus(whole.substr(0, size));
    ASSERT_EQ(status.code(), StatusCode::kDataLoss) << size;
    EXPECT_THAT(status.message(), HasSubstr(std::to_string(size))) << size;
  }
}

TEST(IdxTest, EveryOtherByteInTheHeaderIsAnErrorOrAnotherType) {
  const std::string whole = SmallFile();
  for (size_t offset = 0; offset < kSmallHeaderBytes; ++offset) {
    for (int value = 0; value < 256; ++value) {
      std::string damaged = whole;
      damaged[offset] = static_cast<char>(value);
      if (damaged == whole) {
        continue;
      }
      const Result<Tensor> result = ParseIdx(damaged, "f");
      if (offset == 2 && value == 0x09) {
        // Signed bytes have the same size: another valid file.
        EXPECT_EQ(result->dtype(), DType::kInt32);
        continue;
      }
      ASSERT_EQ(result.status().code(), StatusCode::kDataLoss) << offset << " " << value;
    }
  }
}

TEST(IdxTest, TrailingBytesAreAnError) {
  EXPECT_EQ(ParseStatus(SmallFile() + "xy").message(),
            "f: offset 18: 2 bytes behind the last element of [2, 3]");
}

TEST(IdxTest, MessagesSayWhatWasFoundAndWhatIsAllowed) {
  EXPECT_EQ(ParseStatus("").message(), "f: 0 bytes, an IDX file begins with a magic number of 4");
  EXPECT_EQ(ParseStatus("PNG..").message(),
            "f: offset 0: bytes 50 4e, an IDX file begins with 00 00");
  EXPECT_THAT(ParseStatus(std::string("\0\0\x0a\x01", 4)).message(),
              HasSubstr("f: offset 2: type code 0x0a, allowed are 0x08 (unsigned byte)"));
  EXPECT_EQ(ParseStatus(std::string("\0\0\x08\x09", 4)).message(),
            "f: offset 3: 9 dimensions, allowed are 1 to 8");
  EXPECT_EQ(ParseStatus(std::string("\0\0\x08\0", 4)).message(),
            "f: offset 3: 0 dimensions, allowed are 1 to 8");
  EXPECT_EQ(
      ParseStatus(Idx('\x0c', {2, 3}, "abcd")).message(),
      "f: ends at offset 16, its header promises [2, 3] of 4 bytes each and so 36 bytes in all");
}

TEST(IdxTest, HugeSizesTakeNoMemoryAndDoNotOverflow) {
  constexpr uint32_t kHuge = 0xFFFFFFFF;
  for (const char type : {'\x08', '\x0e'}) {
    EXPECT_THAT(ParseStatus(Idx(type, {kHuge}, "abc")).message(), HasSubstr("ends at offset 11"));
    EXPECT_THAT(ParseStatus(Idx(type, {kHuge, kHuge}, "abc")).message(),
                HasSubstr("f: offset 8: with dimension 1 of size 4294967295"));
    EXPECT_EQ(ParseStatus(Idx(type, std::vector<uint32_t>(8, kHuge), "abc")).code(),
              StatusCode::kDataLoss);
    // 2^16 to the 4th is zero in 64 bits, and zero elements would fit.
    EXPECT_EQ(ParseStatus(Idx(type, {65536, 65536, 65536, 65536}, "")).code(),
              StatusCode::kDataLoss);
    EXPECT_EQ(ParseStatus(Idx(type, {0, kHuge, kHuge, kHuge}, "")).code(), StatusCode::kDataLoss);
    EXPECT_EQ(ParseStatus(Idx(type, {kHuge, kHuge, kHuge, 0}, "")).code(), StatusCode::kDataLoss);
  }
}

TEST(IdxTest, CompressionIsToldByContent) {
  const lockstep::testing::TempFolder folder;
  ASSERT_TRUE(WriteFileAtomic(folder.Path("plain.gz"), SmallFile()).ok());
  ASSERT_TRUE(
      WriteFileAtomic(folder.Path("compressed"), lockstep::testing::Compress(SmallFile())).ok());
  for (const char* name : {"plain.gz", "compressed"}) {
    EXPECT_THAT(ReadIdx(folder.Path(name))->values<uint8_t>(), ElementsAre(1, 2, 3, 253, 254, 255));
  }
}

TEST(IdxTest, DamagedCompressedFilesAreErrorsThatNameThem) {
  const lockstep::testing::TempFolder folder;
  const std::string path = folder.Path("x.gz");
  const std::string compressed = lockstep::testing::Compress(SmallFile());
  std::string wrong_crc = compressed;
  wrong_crc[wrong_crc.size() - 8] ^= 1;
  ASSERT_TRUE(WriteFileAtomic(path, wrong_crc).ok());
  EXPECT_THAT(ReadIdx(path).status().message(),
              HasSubstr(path + ": gzip: incorrect data check at offset "));
  for (size_t size = 0; size < compressed.size(); ++size) {
    ASSERT_TRUE(WriteFileAtomic(path, compressed.substr(0, size)).ok());
    const Status status = ReadIdx(path).status();
    ASSERT_EQ(status.code(), StatusCode::kDataLoss) << size;
    EXPECT_THAT(status.message(), HasSubstr(path)) << size;
  }
  ASSERT_TRUE(WriteFileAtomic(path, lockstep::testing::Compress(SmallFile() + "x")).ok());
  EXPECT_EQ(ReadIdx(path).status().message(),
            path + " (decompressed): offset 18: 1 byte behind the last element of [2, 3]");
}

// A gigabyte of nothing in a file of a megabyte: as much is unpacked as the header promises.
TEST(IdxTest, NoMoreIsUnpackedThanTheHeaderPromises) {
  const lockstep::testing::TempFolder folder;
  const std::string path = folder.Path("x.gz");
  const std::string image = Idx('\x08', {2, 50}, std::string(100, 'x'));
  ASSERT_TRUE(WriteFileAtomic(path, lockstep::testing::Compress(image)).ok());
  EXPECT_TRUE(ReadIdx(path).ok());
  ASSERT_TRUE(
      WriteFileAtomic(path, lockstep::testing::Compress(image + std::string(1 << 20, '\0'))).ok());
  EXPECT_EQ(
      ReadIdx(path).status().ToString(),
      "DATA_LOSS: " + path + " (decompressed): more than the 112 bytes that its header promises");
  const std::string huge = std::string("\0\0\x08\x02", 4) + std::string("\0\1\0\0\0\0\xff\xff", 8);
  ASSERT_TRUE(
      WriteFileAtomic(path, lockstep::testing::Compress(huge + std::string(64, '\0'))).ok());
  EXPECT_EQ(ReadIdx(path).status().code(), StatusCode::kDataLoss);
}

TEST(IdxTest, AStopIsSeen) {
  const lockstep::testing::TempFolder folder;
  const std::string path = folder.Path("x");
  ASSERT_TRUE(WriteFileAtomic(path, SmallFile()).ok());
  EXPECT_EQ(ReadIdx(path, [] { return true; }).status().code(), StatusCode::kCancelled);
  EXPECT_TRUE(ReadIdx(path, [] { return false; }).ok());
}

TEST(IdxTest, AMissingFileIsNotFound) {
  EXPECT_EQ(ReadIdx("no/such/file").status().code(), StatusCode::kNotFound);
}

TEST(IdxTest, TheHeaderComesFromTheBeginningOfTheFile) {
  const lockstep::testing::TempFolder folder;
  const std::string path = folder.Path("f");
  const std::string whole = Idx('\x0d', {40'000, 3}, std::string(480'000, '\x3c'));
  for (const std::string& content :
       {whole, whole.substr(0, 100), lockstep::testing::Compress(whole)}) {
    ASSERT_TRUE(WriteFileAtomic(path, content).ok());
    const Result<IdxHeader> header = ReadIdxHeader(path);
    ASSERT_TRUE(header.ok()) << header.status().ToString();
    EXPECT_EQ(header->dtype, DType::kFloat32);
    EXPECT_EQ(header->shape, (Shape{40'000, 3}));
  }
  const auto error = [&](const std::string& content) {
    EXPECT_TRUE(WriteFileAtomic(path, content).ok());
    return ReadIdxHeader(path).status().message();
  };
  EXPECT_THAT(error(""), HasSubstr(path + ": 0 bytes, an IDX file begins with"));
  EXPECT_THAT(error(SmallFile().substr(0, 9)), HasSubstr("ends at offset 9 inside the header"));
  EXPECT_THAT(error(lockstep::testing::Compress("no")), HasSubstr(": 2 bytes, an IDX file"));
  EXPECT_THAT(error("\x1f\x8b\x08\xff"), HasSubstr(path));
  EXPECT_THAT(ReadIdxHeader(folder.path()).status().message(), HasSubstr("is a directory"));
}

}  // namespace
}  // namespace lockstep::data
