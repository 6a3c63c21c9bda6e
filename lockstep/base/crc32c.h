// CRC-32C (Castagnoli polynomial, as iSCSI, RFC 3720 appendix B.4), with the processor's
// instruction where it has one, and the masked form that the TFRecord format stores. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lockstep {

// The checksum of `size` more bytes after those whose checksum is `crc`; 0 stands for none.
uint32_t ExtendCrc32c(uint32_t crc, const void* data, size_t size);

inline uint32_t Crc32c(std::string_view data) {
  return ExtendCrc32c(0, data.data(), data.size());
}

// TFRecord stores masked checksums, because a checksum of data that contains its own checksum is
// weak: rotate right by 15 bits, add a constant.
constexpr uint32_t kCrc32cMaskDelta = 0xA282EAD8U;

constexpr uint32_t MaskCrc32c(uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + kCrc32cMaskDelta;
}

constexpr uint32_t UnmaskCrc32c(uint32_t masked) {
  const uint32_t rotated = masked - kCrc32cMaskDelta;
  return (rotated >> 17) | (rotated << 15);
}

}  // namespace lockstep
