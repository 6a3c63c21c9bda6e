#include "lockstep/train/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "lockstep/base/file.h"
#include "lockstep/base/sha256.h"
#include "lockstep/base/testing/temp_folder.h"

namespace lockstep::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kReadLimit = 1 << 20;

// The length, then the header as it is.
std::string WithLength(const std::string& header) {
  std::string text;
  for (int i = 0; i < 8; ++i) {
    text += static_cast<char>(uint64_t{header.size()} >> (8 * i));
  }
  return text + header;
}

std::string RawBytes(const Tensor& tensor) {
  return {static_cast<const char*>(tensor.data()), tensor.bytes()};
}

// "name dtype shape" of every entry.
std::vector<std::string> Entries(const SafetensorsHeader& header) {
  std::vector<std::string> entries;
  for (const SafetensorsEntry& entry : header.entries) {
    entries.push_back(entry.name + " " + std::string(DTypeName(entry.dtype)) + " " +
                      entry.shape.ToString());
  }
  return entries;
}

class SafetensorsTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return folder_.Path(name); }

  // Of a file with these bytes.
  Result<SafetensorsContent> Read(const std::string& bytes) {
    std::filesystem::remove(Path("read"));
    std::ofstream(Path("read"), std::ios::binary) << bytes;
    LS_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(Path("read")));
    return ReadSafetensors(file);
  }

  std::string Error(const std::string& header, const std::string& data = "") {
    const std::string text = Read(WithLength(header) + data).status().ToString();
    const size_t at = text.find(Path("read"));
    return at == std::string::npos ? text
                                   : text.substr(0, at) + text.substr(at + Path("read").size() + 2);
  }

  std::string Written(const std::vector<NamedTensor>& tensors,
                      const SafetensorsMetadata& metadata = {}) {
    std::filesystem::remove(Path("written"));
    const Result<FileDigest> digest = WriteSafetensors(Path("written"), tensors, metadata);
    EXPECT_TRUE(digest.ok()) << digest.status().ToString();
    const std::string bytes = ReadFile(Path("written"), kReadLimit).value();
    EXPECT_EQ(digest->bytes, bytes.size());
    EXPECT_EQ(digest->sha256, Sha256Hex(bytes).value());
    return bytes;
  }

  testing::TempFolder folder_;
};

std::vector<NamedTensor> SmallTensors() {
  return {{"b", Tensor::From<float>(Shape{2, 3}, {1, 2, 3, 4, 5, 6}).value()},
          {"a", Tensor::From<uint8_t>(Shape{3}, {7, 8, 9}).value()}};
}

TEST_F(SafetensorsTest, WritesTheseBytes) {
  const std::string header =
      R"({"__metadata__":{"k":"v"},"a":{"data_offsets":[8,11],"dtype":"U8","shape":[3]},)"
      R"("b":{"data_offsets":[0,8],"dtype":"F32","shape":[2,1]}})";
  const std::string padded = header + std::string(192 - 8 - header.size(), ' ');
  const std::string data("\0\0\x80\x3f\0\0\0\xc0\7\x8\x9", 11);
  EXPECT_EQ(Written({{"b", Tensor::From<float>(Shape{2, 1}, {1, -2}).value()},
                     {"a", Tensor::From<uint8_t>(Shape{3}, {7, 8, 9}).value()}},
                    {{"k", "v"}}),
            WithLength(padded) + data);
}

TEST_F(SafetensorsTest, ReadsAFileOfThePublicLibrary) {
  // safetensors.numpy.save_file({"w": float32 [[1, 2]], "n": int64 scalar 5}, {"format": "np"})
  const std::string header =
      R"({"__metadata__":{"format":"np"},"n":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
      R"("w":{"dtype":"F32","shape":[1,2],"data_offsets":[8,16]}}     )";
  const Result<SafetensorsContent> content =
      Read(WithLength(header) + std::string("\5\0\0\0\0\0\0\0\0\0\x80\x3f\0\0\0\x40", 16));
  ASSERT_TRUE(content.ok()) << content.status().ToString();
  ASSERT_EQ(content->tensors.size(), 2U);
  EXPECT_EQ(content->tensors[0].name, "n");
  EXPECT_EQ(content->tensors[0].value.ToString(), Tensor::Scalar<int64_t>(5).value().ToString());
  EXPECT_EQ(content->tensors[1].name, "w");
  EXPECT_EQ(content->tensors[1].value.shape(), (Shape{1, 2}));
  EXPECT_THAT(content->tensors[1].value.ToDoubles(), ElementsAre(1, 2));
  EXPECT_EQ(content->metadata, (SafetensorsMetadata{{"format", "np"}}));
}

TEST_F(SafetensorsTest, EveryTypeComesBackBitByBit) {
  std::vector<NamedTensor> tensors;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64, DType::kInt32,
                            DType::kInt64, DType::kUInt8, DType::kBool}) {
    Tensor tensor = Tensor::Allocate(dtype, Shape{3, 1, 5}).value();
    for (size_t i = 0; i < tensor.bytes(); ++i) {
      // All bits, NaN patterns among them.
      static_cast<unsigned char*>(tensor.data())[i] =
          static_cast<unsigned char>(dtype == DType::kBool ? i % 2 : 255 - i);
    }
    tensors.push_back({"t/" + std::string(DTypeName(dtype)), tensor});
  }
  tensors.push_back({"empty", Tensor::Zeros(DType::kFloat32, Shape{4, 0}).value()});
  tensors.push_back({"empty double", Tensor::Zeros(DType::kFloat64, Shape{0}).value()});
  tensors.push_back({"scalar \"\xc3\xa4\"\n", Tensor::Scalar<float>(0.1F).value()});
  const Result<SafetensorsContent> content = Read(Written(tensors));
  ASSERT_TRUE(content.ok()) << content.status().ToString();
  ASSERT_EQ(content->tensors.size(), tensors.size());
  for (const NamedTensor& found : content->tensors) {
    const auto it =
        std::find_if(tensors.begin(), tensors.end(),
                     [&found](const NamedTensor& tensor) { return tensor.name == found.name; });
    ASSERT_NE(it, tensors.end()) << found.name;
    EXPECT_EQ(found.value.dtype(), it->value.dtype());
    EXPECT_EQ(found.value.shape(), it->value.shape());
    EXPECT_EQ(RawBytes(found.value), RawBytes(it->value)) << found.name;
  }
  EXPECT_EQ(content->digest.sha256, Sha256Hex(ReadFile(Path("read"), kReadLimit).value()).value());
}

TEST_F(SafetensorsTest, ElementsAreAlignedAndOrderDoesNotMatter) {
  std::vector<NamedTensor> tensors = SmallTensors();
  const std::string bytes = Written(tensors);
  const Result<SafetensorsHeader> header = ParseSafetensorsHeader(bytes, bytes.size(), "f");
  ASSERT_TRUE(header.ok());
  EXPECT_THAT(Entries(*header), ElementsAre("b float32 [2, 3]", "a uint8 [3]"));
  EXPECT_EQ(header->data_begin % 64, 0U);
  EXPECT_EQ(header->entries[0].begin, header->data_begin);
  std::reverse(tensors.begin(), tensors.end());
  EXPECT_EQ(Written(tensors), bytes);
}

TEST_F(SafetensorsTest, NothingIsAFileToo) {
  const Result<SafetensorsContent> content = Read(Written({}));
  ASSERT_TRUE(content.ok()) << content.status().ToString();
  EXPECT_TRUE(content->tensors.empty());
}

TEST_F(SafetensorsTest, OneTensorIsReadAlone) {
  Written(SmallTensors());
  const Result<InputFile> file = InputFile::Open(Path("written"));
  ASSERT_TRUE(file.ok());
  const Result<SafetensorsHeader> header = ReadSafetensorsHeader(*file);
  ASSERT_TRUE(header.ok());
  EXPECT_THAT(ReadSafetensorsTensor(*file, header->entries[1])->ToDoubles(), ElementsAre(7, 8, 9));
}

TEST_F(SafetensorsTest, EveryTruncationIsFound) {
  const std::string bytes = Written(SmallTensors());
  for (size_t size = 0; size < bytes.size(); ++size) {
    const Status status = Read(bytes.substr(0, size)).status();
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << size << ": " << status.ToString();
    EXPECT_THAT(status.message(), HasSubstr(Path("read")));
  }
  EXPECT_EQ(Read(bytes + "x").status().code(), StatusCode::kDataLoss);
}

TEST_F(SafetensorsTest, AnyFlippedBitOfTheHeaderIsFoundOrChangesANameOnly) {
  const std::string bytes = Written(SmallTensors());
  const Result<SafetensorsHeader> whole = ParseSafetensorsHeader(bytes, bytes.size(), "f");
  ASSERT_TRUE(whole.ok());
  int accepted = 0;
  for (size_t i = 0; i < whole->data_begin * 8; ++i) {
    std::string flipped = bytes;
    flipped[i / 8] = static_cast<char>(flipped[i / 8] ^ (1 << (i % 8)));
    const Result<SafetensorsHeader> header = ParseSafetensorsHeader(flipped, bytes.size(), "f");
    if (!header.ok()) {
      EXPECT_THAT(header.status().message(), ::testing::StartsWith("f: "));
      continue;
    }
    ++accepted;
    ASSERT_EQ(header->entries.size(), 2U);
    int renamed = 0;
    for (size_t e = 0; e < 2; ++e) {
      EXPECT_EQ(header->entries[e].dtype, whole->entries[e].dtype);
      EXPECT_EQ(header->entries[e].shape, whole->entries[e].shape);
      EXPECT_EQ(header->entries[e].begin, whole->entries[e].begin);
      renamed += header->entries[e].name != whole->entries[e].name ? 1 : 0;
    }
    EXPECT_EQ(renamed, 1) << i;
  }
  // Two names of one letter.
  EXPECT_LE(accepted, 16);
}

TEST_F(SafetensorsTest, LengthsAreChecked) {
  EXPECT_EQ(Read("1234567").status().message(),
            Path("read") + ": 7 bytes, a safetensors file begins with 8 bytes of header length");
  EXPECT_EQ(Read(std::string(8, '\xff')).status().message(),
            Path("read") +
                ": offset 0: a header of 18446744073709551615 bytes, after it the file "
                "has only 0");
  EXPECT_THAT(Read(WithLength("{}  ").substr(0, 11)).status().message(),
              HasSubstr("offset 0: a header of 4 bytes, after it the file has only 3"));
  EXPECT_EQ(Error(""), "DATA_LOSS: offset 8: the header does not begin with '{'");
  // A sparse file, so that the length alone is at fault.
  ASSERT_TRUE(WriteFileAtomic(Path("big"), std::string("\x01\xe1\xf5\x05\0\0\0\0", 8)).ok());
  std::filesystem::resize_file(Path("big"), 200'000'000);
  const Result<InputFile> big = InputFile::Open(Path("big"));
  ASSERT_TRUE(big.ok());
  EXPECT_THAT(ReadSafetensors(*big).status().message(),
              HasSubstr("a header of 100000001 bytes, allowed are at most 100000000"));
}

TEST_F(SafetensorsTest, TheSyntaxIsChecked) {
  EXPECT_THAT(Error("{x"), HasSubstr("DATA_LOSS: offset 9: the header is not valid JSON"));
  EXPECT_THAT(Error("{} x"), HasSubstr("offset 11: the header is not valid JSON"));
  EXPECT_THAT(Error("{"), HasSubstr("not valid JSON"));
  EXPECT_THAT(Error("\xef\xbb\xbf{}"), HasSubstr("does not begin with '{'"));
  EXPECT_EQ(Error(std::string("{}\0x", 4)), "DATA_LOSS: offset 10: a zero byte in the header");
  EXPECT_THAT(Error(" {}"), HasSubstr("does not begin with '{'"));
  EXPECT_THAT(Error("[]"), HasSubstr("does not begin with '{'"));
  EXPECT_THAT(Error("{\"a\xff\":1}"), HasSubstr("not valid JSON"));
  EXPECT_THAT(Error("{\"a\":" + std::string(1'000'000, '[')),
              HasSubstr("tensor 'a': is an array, expected an object"));
  EXPECT_THAT(Error("{\"a\":{\"shape\":" + std::string(1'000'000, '[')),
              HasSubstr("tensor 'a': shape has an array, expected numbers from 0"));
  EXPECT_THAT(Error(R"({"a":{"b":{)"), HasSubstr("tensor 'a': field 'b'"));
  EXPECT_THAT(Error(R"({"__metadata__":{"a":{}}})"),
              HasSubstr("tensor '__metadata__': key 'a' is an object, expected a text"));
  EXPECT_THAT(Error(R"({"__metadata__":{"a":1}})"), HasSubstr("is 1, expected a text"));
  EXPECT_THAT(Error(R"({"__metadata__":{"a":"1","a":"2"}})"), HasSubstr("key 'a' is there twice"));
  EXPECT_THAT(Error(R"({"__metadata__":{},"__metadata__":{}})"), HasSubstr("is there twice"));
}

TEST_F(SafetensorsTest, TheFieldsAreChecked) {
  const auto tensor = [](const std::string& fields) { return "{\"a\":{" + fields + "}}"; };
  EXPECT_THAT(Error(tensor("")), HasSubstr("needs the fields dtype, shape and data_offsets"));
  EXPECT_THAT(Error(tensor(R"("dtype":"F32","shape":[0])")), HasSubstr("needs the fields"));
  EXPECT_THAT(Error(tensor(R"("dtype":"F32","dtype":"F32")")), HasSubstr("dtype is there twice"));
  EXPECT_THAT(Error(tensor(R"("dtype":1)")), HasSubstr("dtype has 1, expected a text"));
  EXPECT_THAT(Error(tensor(R"("dtype":null)")), HasSubstr("dtype has null, expected a text"));
  EXPECT_THAT(Error(tensor(R"("shape":"x")")), HasSubstr("shape has the text 'x', expected"));
  EXPECT_THAT(Error(tensor(R"("shape":[-1])")), HasSubstr("shape has -1, expected numbers from 0"));
  EXPECT_THAT(Error(tensor(R"("shape":[1.5])")), HasSubstr("shape has 1.5, expected"));
  EXPECT_THAT(Error(tensor(R"("shape":[1e2])")), HasSubstr("shape has 1e2, expected"));
  EXPECT_THAT(Error(tensor(R"("shape":[18446744073709551616])")), HasSubstr("shape has 18446"));
  EXPECT_THAT(Error(tensor(R"("shape":[1,1,1,1,1,1,1,1,1])")), HasSubstr("more than 8 dimensions"));
  EXPECT_THAT(Error(tensor(R"("data_offsets":[0,0,0])")), HasSubstr("more than 2 offsets"));
  EXPECT_THAT(Error(tensor(R"("dtype":"F32","shape":[0],"data_offsets":[0])")),
              HasSubstr("data_offsets needs two numbers"));
  EXPECT_EQ(Error(tensor(R"("dtype":"F16","shape":[0],"data_offsets":[0,0])")),
            "UNIMPLEMENTED: tensor 'a': dtype 'F16', supported are F32, BF16, F64, I32, I64, U8, "
            "BOOL");
  EXPECT_EQ(Error(tensor(R"("dtype":"f32","shape":[0],"data_offsets":[0,0])")),
            "DATA_LOSS: tensor 'a': dtype 'f32', supported are F32, BF16, F64, I32, I64, U8, BOOL");
}

TEST_F(SafetensorsTest, ShapesAndOffsetsMustAgree) {
  const auto tensor = [](const std::string& name, const std::string& shape,
                         const std::string& offsets) {
    return "\"" + name + R"(":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets +
           "}";
  };
  const auto one = [&tensor](const std::string& shape, const std::string& offsets) {
    return "{" + tensor("a", shape, offsets) + "}";
  };
  EXPECT_EQ(Error(one("[2]", "[0,4]"), "1234"),
            "DATA_LOSS: tensor 'a': data_offsets [0, 4] do not fit F32 [2]");
  EXPECT_THAT(Error(one("[1]", "[4,0]"), "1234"), HasSubstr("do not fit"));
  // 2^62 * 4 would be 0 in 64 bits.
  EXPECT_THAT(Error(one("[4611686018427387904]", "[0,0]")), HasSubstr("2^62 elements or more"));
  EXPECT_THAT(Error(one("[4611686018427387903]", "[0,0]")), HasSubstr("do not fit"));
  EXPECT_THAT(Error(one("[4294967296,4294967296]", "[0,0]")), HasSubstr("2^62 elements or more"));
  EXPECT_THAT(Error(one("[9223372036854775808]", "[0,0]")), HasSubstr("is too large"));
  EXPECT_THAT(Error(one("[1]", "[18446744073709551612,18446744073709551615]")),
              HasSubstr("do not fit"));
  EXPECT_THAT(Error(one("[1]", "[18446744073709551611,18446744073709551615]")),
              HasSubstr("are too large"));
  EXPECT_THAT(Error(one("[2]", "[0,8]"), "1234"), HasSubstr("tensor 'a': ends at offset"));
  EXPECT_THAT(Error(one("[1]", "[4,8]"), "12345678"), HasSubstr("(a gap)"));
  EXPECT_THAT(Error(one("[1]", "[0,4]"), "12345678"), HasSubstr("4 bytes behind the last tensor"));
  EXPECT_THAT(
      Error("{" + tensor("a", "[1]", "[0,4]") + "," + tensor("b", "[1]", "[0,4]") + "}", "1234"),
      HasSubstr("tensor 'b': begins at offset"));
  EXPECT_THAT(Error("{" + tensor("a", "[2]", "[0,8]") + "," + tensor("b", "[1]", "[4,8]") + "}",
                    "12345678"),
              HasSubstr("(tensors overlap)"));
  EXPECT_THAT(Error("{" + tensor("a", "[1]", "[0,4]") + "," + tensor("b", "[1]", "[8,12]") + "}",
                    "123456789012"),
              HasSubstr("(a gap)"));
  EXPECT_THAT(Error("{" + tensor("a", "[1]", "[0,4]") + "," + tensor("a", "[1]", "[4,8]") + "}",
                    "12345678"),
              HasSubstr("tensor 'a': is there twice"));
  EXPECT_TRUE(Read(WithLength(one("[9223372036854775807,0]", "[0,0]"))).ok());
}

TEST_F(SafetensorsTest, ABoolIsZeroOrOne) {
  const std::string header = R"({"a":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}})";
  EXPECT_TRUE(Read(WithLength(header) + std::string("\0\1\1", 3)).ok());
  EXPECT_EQ(Error(header, std::string("\0\2\1", 3)),
            "DATA_LOSS: offset " + std::to_string(8 + header.size() + 1) +
                ": tensor 'a': byte 02 in a BOOL, allowed are 00 and 01");
}

TEST_F(SafetensorsTest, WhatCannotBeWrittenIsRefused) {
  const Tensor value = Tensor::Scalar<float>(1).value();
  const auto error = [this](const std::vector<NamedTensor>& tensors,
                            const SafetensorsMetadata& metadata = {}) {
    return WriteSafetensors(Path("w"), tensors, metadata).status().ToString();
  };
  EXPECT_EQ(error({{"a", value}, {"a", value}}), "INVALID_ARGUMENT: two tensors are called 'a'");
  EXPECT_EQ(error({{"__metadata__", value}}),
            "INVALID_ARGUMENT: a tensor cannot be called '__metadata__' in a safetensors file");
  EXPECT_THAT(error({{"\xff", value}}), HasSubstr("a tensor cannot be called"));
  EXPECT_THAT(error({}, {{"k", "\xff"}}), HasSubstr("metadata 'k' is not UTF-8"));
  EXPECT_FALSE(std::filesystem::exists(Path("w")));
  ASSERT_TRUE(WriteFileAtomic(Path("w"), "old").ok());
  EXPECT_THAT(error({}), HasSubstr("ALREADY_EXISTS"));
  EXPECT_EQ(ReadFile(Path("w"), kReadLimit).value(), "old");
}

// Both directions against the public library, where it is installed.
TEST_F(SafetensorsTest, ThePublicLibraryAgrees) {
  // No other thread runs. NOLINTNEXTLINE(concurrency-mt-unsafe)
  if (std::system("python3 -c 'import numpy, safetensors.numpy' 2>/dev/null") != 0) {
    GTEST_SKIP() << "NOT CHECKED: python3 has no safetensors and numpy";
  }
  Written(SmallTensors(), {{"k", "v"}});
  std::ofstream(Path("check.py")) << R"(
import sys
import numpy
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
source, target = sys.argv[1:]
tensors = load_file(source)
assert sorted(tensors) == ["a", "b"], tensors
assert tensors["a"].dtype == numpy.uint8 and tensors["a"].tolist() == [7, 8, 9]
assert tensors["b"].dtype == numpy.float32 and tensors["b"].tolist() == [[1, 2, 3], [4, 5, 6]]
with safe_open(source, "np") as file:
    assert file.metadata() == {"k": "v"}
tensors["c"] = numpy.array([True, False])
save_file(tensors, target, {"k": "v"})
)";
  const std::string command =
      "python3 '" + Path("check.py") + "' '" + Path("written") + "' '" + Path("theirs") + "'";
  // NOLINTNEXTLINE(concurrency-mt-unsafe)
  ASSERT_EQ(std::system(command.c_str()), 0);
  const Result<SafetensorsContent> content = Read(ReadFile(Path("theirs"), kReadLimit).value());
  ASSERT_TRUE(content.ok()) << content.status().ToString();
  EXPECT_EQ(content->metadata, (SafetensorsMetadata{{"k", "v"}}));
  std::map<std::string, std::vector<double>> values;
  for (const NamedTensor& tensor : content->tensors) {
    values[tensor.name] = tensor.value.ToDoubles();
  }
  EXPECT_EQ(values, (std::map<std::string, std::vector<double>>{
                        {"a", {7, 8, 9}}, {"b", {1, 2, 3, 4, 5, 6}}, {"c", {1, 0}}}));
}

}  // namespace
}  // namespace lockstep::train
