// The implementations behind Crc32c, apart so that tests can compare them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::internal {

// Eight tables, eight bytes at a time ("slicing by 8": Kounavis and Berry, 2005).
uint32_t Crc32cPortable(uint32_t crc, const void* data, size_t size);

bool HasCrc32cInstruction();

// Only if HasCrc32cInstruction().
uint32_t Crc32cInstruction(uint32_t crc, const void* data, size_t size);

}  // namespace lockstep::internal
