// Seal: authenticates the messages of one direction of a link that is not encrypted: HMAC-SHA256 by
// a key that both ends made for this link, over the number of the message and its bytes. What was
// changed, invented, left out or repeated does not match. One thread at a time.
#pragma once

#include <openssl/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "lockstep/base/result.h"
#include "lockstep/net/internal/proof.h"

namespace lockstep::net::internal {

class Seal {
 public:
  static Result<Seal> Create(const Proof& key);

  // The code of the next message, which consists of these parts.
  Result<Proof> Next(std::span<const std::span<const std::byte>> parts);

 private:
  using Context = std::unique_ptr<EVP_MAC_CTX, void (*)(EVP_MAC_CTX*)>;

  explicit Seal(Context keyed) : keyed_(std::move(keyed)) {}

  Context keyed_;
  uint64_t next_ = 0;
};

}  // namespace lockstep::net::internal
