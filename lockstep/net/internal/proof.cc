#include "lockstep/net/internal/proof.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <limits>
#include <vector>

namespace lockstep::net::internal {

Result<Nonce> MakeNonce() {
  Nonce nonce{};
  if (RAND_bytes(nonce.data(), static_cast<int>(nonce.size())) != 1) {
    return Internal("the system has no random bytes");
  }
  return nonce;
}

Result<Proof> MakeProof(std::string_view secret, std::string_view role,
                        std::span<const std::byte> transcript) {
  if (secret.size() > static_cast<size_t>(std::numeric_limits<int>::max())) {
    return InvalidArgument("the job's secret is too long");
  }
  std::vector<uint8_t> message(role.begin(), role.end());
  message.push_back(0);
  const auto* bytes = reinterpret_cast<const uint8_t*>(transcript.data());
  message.insert(message.end(), bytes, bytes + transcript.size());
  Proof proof{};
  unsigned int size = 0;
  if (HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()), message.data(),
           message.size(), proof.data(), &size) == nullptr ||
      size != proof.size()) {
    return Internal("HMAC-SHA256 failed");
  }
  return proof;
}

bool SameProof(const Proof& a, const Proof& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace lockstep::net::internal
