// HMAC-SHA256 (RFC 2104), comparison in constant time and random bytes for keys and nonces, all by
// OpenSSL. Thread-safe.
//
//   LS_ASSIGN_OR_RETURN(const Digest digest, HmacSha256(key, {method, body}));
//   if (!ConstantTimeEqual(digest, received)) return Unauthenticated(...);
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include "lockstep/base/result.h"

namespace lockstep {

using Digest = std::array<uint8_t, 32>;

// Of the concatenation of `parts`: who needs to tell them apart puts their lengths among them.
Result<Digest> HmacSha256(std::string_view key, std::initializer_list<std::string_view> parts);

// The time depends on the lengths only.
bool ConstantTimeEqual(std::string_view a, std::string_view b);

// From the system's generator for keys.
Status FillRandom(std::span<uint8_t> bytes);
// Never zero.
Result<uint64_t> RandomNonZero();

inline std::string_view BytesOf(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

}  // namespace lockstep
