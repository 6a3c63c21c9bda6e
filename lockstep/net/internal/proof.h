// Proofs that both ends of a new link know the job's secret, without sending it: each end gives a
// random nonce, and answers with the HMAC-SHA256 of the role and both ends' greetings. Replaying
// what was heard does not help, because the other end's nonce is new each time. Comparison takes
// the same time whatever the difference.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "lockstep/base/result.h"

namespace lockstep::net::internal {

using Nonce = std::array<uint8_t, 32>;
using Proof = std::array<uint8_t, 32>;

// Errors: Internal when the system has no randomness.
Result<Nonce> MakeNonce();
// `role` keeps the proof of one end from being that of the other.
Result<Proof> MakeProof(std::string_view secret, std::string_view role,
                        std::span<const std::byte> transcript);
bool SameProof(const Proof& a, const Proof& b);

}  // namespace lockstep::net::internal
