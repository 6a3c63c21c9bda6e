// Philox4x32-10: a counter-based random generator. Its output is a pure function of (key, counter),
// so that random numbers do not depend on process, thread, order or time (contract C1). Source:
// Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC'11.
//
// A stream is named by (seed, name, step, replica); element i of the stream is block i / 4, word i
// % 4.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace lockstep {

using PhiloxBlock = std::array<uint32_t, 4>;

// One block of four 32-bit words.
PhiloxBlock Philox4x32(PhiloxBlock counter, std::array<uint32_t, 2> key);

// FNV-1a, 64 bits: the stable hash that turns a name into part of a key.
uint64_t StableHash(std::string_view text);

// Identifies one stream of random numbers.
class PhiloxStream {
 public:
  PhiloxStream(uint64_t seed, std::string_view name, int64_t step = 0, int32_t replica = 0);

  // Words [4 * index, 4 * index + 4) of the stream. Up to 2^40 blocks are distinct.
  PhiloxBlock Block(uint64_t index) const;

  // Word `index` of the stream.
  uint32_t Word(uint64_t index) const { return Block(index / 4)[index % 4]; }

 private:
  std::array<uint32_t, 2> key_;
  uint32_t replica_;
  uint32_t step_low_;
  uint32_t step_high_;
};

// Uniform in [0, 1) with 24 random bits: exact in float.
inline float UniformFloat(uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1.0p-24F;
}

// Two independent standard normal values from two words (Box-Muller, computed in double).
std::array<float, 2> NormalPair(uint32_t word0, uint32_t word1);

// Unbiased in [0, bound) up to 2^-32 relative: multiply-shift of one word. bound must be positive.
inline uint32_t UniformBelow(uint32_t word, uint32_t bound) {
  return static_cast<uint32_t>((uint64_t{word} * bound) >> 32);
}

}  // namespace lockstep
