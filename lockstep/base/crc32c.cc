#include "lockstep/base/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

#include "lockstep/base/internal/crc32c_kinds.h"
#include "lockstep/base/macros.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace lockstep {
namespace {

static_assert(std::endian::native == std::endian::little);

// The polynomial 0x1EDC6F41, bits reversed.
constexpr uint32_t kPolynomial = 0x82F63B78U;

using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables MakeTables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1U) != 0 ? kPolynomial : 0U);
    }
    tables[0][byte] = crc;
  }
  for (size_t slice = 1; slice < tables.size(); ++slice) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t previous = tables[slice - 1][byte];
      tables[slice][byte] = (previous >> 8) ^ tables[0][previous & 0xFFU];
    }
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

uint64_t Load64(const unsigned char* bytes) {
  uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

}  // namespace

namespace internal {

uint32_t Crc32cPortable(uint32_t crc, const void* data, size_t size) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  crc = ~crc;
  for (; size >= 8; size -= 8, bytes += 8) {
    const uint64_t word = Load64(bytes) ^ crc;
    crc = 0;
    for (size_t i = 0; i < 8; ++i) {
      crc ^= kTables[7 - i][(word >> (8 * i)) & 0xFFU];
    }
  }
  for (; size > 0; --size, ++bytes) {
    crc = (crc >> 8) ^ kTables[0][(crc ^ *bytes) & 0xFFU];
  }
  return ~crc;
}

#if defined(__x86_64__)

bool HasCrc32cInstruction() {
  return __builtin_cpu_supports("sse4.2") != 0;
}

__attribute__((target("sse4.2"))) uint32_t Crc32cInstruction(uint32_t crc, const void* data,
                                                             size_t size) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  uint64_t state = ~crc;
  for (; size >= 8; size -= 8, bytes += 8) {
    state = _mm_crc32_u64(state, Load64(bytes));
  }
  auto last = static_cast<uint32_t>(state);
  for (; size > 0; --size, ++bytes) {
    last = _mm_crc32_u8(last, *bytes);
  }
  return ~last;
}

#else

bool HasCrc32cInstruction() {
  return false;
}

uint32_t Crc32cInstruction(uint32_t /*crc*/, const void* /*data*/, size_t /*size*/) {
  LS_CHECK(HasCrc32cInstruction());
  return 0;
}

#endif

}  // namespace internal

uint32_t ExtendCrc32c(uint32_t crc, const void* data, size_t size) {
  return internal::HasCrc32cInstruction() ? internal::Crc32cInstruction(crc, data, size)
                                          : internal::Crc32cPortable(crc, data, size);
}

}  // namespace lockstep
