#include "lockstep/base/philox.h"

#include <cmath>
#include <numbers>

namespace lockstep {
namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53;
constexpr uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9;
constexpr uint32_t kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10;

// Finaliser of SplitMix64: spreads every input bit over the whole key.
uint64_t Mix(uint64_t x) {
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9ULL;
  x ^= x >> 27;
  x *= 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

}  // namespace

PhiloxBlock Philox4x32(PhiloxBlock counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t product0 = uint64_t{kMultiplier0} * counter[0];
    const uint64_t product1 = uint64_t{kMultiplier1} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

uint64_t StableHash(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  }
  return hash;
}

PhiloxStream::PhiloxStream(uint64_t seed, std::string_view name, int64_t step, int32_t replica)
    : replica_(static_cast<uint32_t>(replica)),
      step_low_(static_cast<uint32_t>(static_cast<uint64_t>(step))),
      step_high_(static_cast<uint32_t>(static_cast<uint64_t>(step) >> 32)) {
  const uint64_t key = Mix(Mix(seed + 0x9E3779B97F4A7C15ULL) ^ StableHash(name));
  key_ = {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)};
}

PhiloxBlock PhiloxStream::Block(uint64_t index) const {
  // The third word carries the step's low half, the fourth the replica and the high parts of step
  // and index.
  const uint32_t high = static_cast<uint32_t>(index >> 32);
  return Philox4x32({static_cast<uint32_t>(index), replica_, step_low_, (step_high_ << 8) ^ high},
                    key_);
}

std::array<float, 2> NormalPair(uint32_t word0, uint32_t word1) {
  const double u = (static_cast<double>(word0) + 0.5) * 0x1.0p-32;
  const double angle = 2.0 * std::numbers::pi * (static_cast<double>(word1) * 0x1.0p-32);
  const double radius = std::sqrt(-2.0 * std::log(u));
  return {static_cast<float>(radius * std::cos(angle)),
          static_cast<float>(radius * std::sin(angle))};
}

}  // namespace lockstep
