// SHA-256 (FIPS 180-4) by OpenSSL, fed piece by piece. Not thread-safe.
//
//   LS_ASSIGN_OR_RETURN(Sha256 hash, Sha256::Create());
//   hash.Update(data, bytes);
//   const std::string digest = std::move(hash).HexDigest();
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "lockstep/base/result.h"

namespace lockstep {

class Sha256 {
 public:
  // Fails when OpenSSL has no memory or no SHA-256.
  static Result<Sha256> Create();

  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  ~Sha256();

  void Update(const void* data, size_t size);

  void Update(std::string_view text) { Update(text.data(), text.size()); }

  // 64 lower-case hexadecimal digits. Ends the computation.
  std::string HexDigest() &&;

 private:
  struct State;
  explicit Sha256(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

// The digest of one piece.
Result<std::string> Sha256Hex(std::string_view data);

}  // namespace lockstep
