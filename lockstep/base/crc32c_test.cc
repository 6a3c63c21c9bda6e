#include "lockstep/base/crc32c.h"

#include <gtest/gtest.h>

#include <string>

#include "lockstep/base/internal/crc32c_kinds.h"

namespace lockstep {
namespace {

struct KnownAnswer {
  std::string data;
  uint32_t crc;
};

// RFC 3720, appendix B.4, and the check value of the CRC catalogue.
std::vector<KnownAnswer> KnownAnswers() {
  std::string up;
  std::string down;
  for (int i = 0; i < 32; ++i) {
    up.push_back(static_cast<char>(i));
    down.push_back(static_cast<char>(31 - i));
  }
  return {{"", 0},
          {"123456789", 0xE3069283},
          {std::string(32, '\0'), 0x8A9136AA},
          {std::string(32, '\xff'), 0x62A8AB43},
          {up, 0x46DD794E},
          {down, 0x113FDB5C}};
}

TEST(Crc32cTest, KnownAnswersOfEveryKind) {
  for (const KnownAnswer& known : KnownAnswers()) {
    EXPECT_EQ(Crc32c(known.data), known.crc);
    EXPECT_EQ(internal::Crc32cPortable(0, known.data.data(), known.data.size()), known.crc);
  }
}

TEST(Crc32cTest, KindsAgreeAtEveryLengthAndAlignment) {
  if (!internal::HasCrc32cInstruction()) {
    GTEST_SKIP() << "this processor has no CRC-32C instruction";
  }
  std::string data(80, '\0');
  for (size_t i = 0; i < data.size(); ++i) {
    data[i] = static_cast<char>(i * 167 + 13);
  }
  for (size_t begin = 0; begin < 9; ++begin) {
    for (size_t size = 0; begin + size <= data.size(); ++size) {
      EXPECT_EQ(internal::Crc32cPortable(7, data.data() + begin, size),
                internal::Crc32cInstruction(7, data.data() + begin, size));
    }
  }
}

TEST(Crc32cTest, Extends) {
  const std::string data = "123456789";
  for (size_t cut = 0; cut <= data.size(); ++cut) {
    EXPECT_EQ(ExtendCrc32c(Crc32c(data.substr(0, cut)), data.data() + cut, data.size() - cut),
              0xE3069283);
  }
}

TEST(Crc32cTest, MasksAsTfRecordDoes) {
  // The record header of length 0 ends in these four bytes in every TFRecord file: 29 03 98 07.
  EXPECT_EQ(MaskCrc32c(Crc32c(std::string(8, '\0'))), 0x07980329U);
  for (const uint32_t crc : {0U, 1U, 0xFFFFFFFFU, 0xE3069283U}) {
    EXPECT_EQ(UnmaskCrc32c(MaskCrc32c(crc)), crc);
    EXPECT_NE(MaskCrc32c(crc), crc);
  }
}

}  // namespace
}  // namespace lockstep
