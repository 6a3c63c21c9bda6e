#include "lockstep/net/internal/seal.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <utility>

namespace lockstep::net::internal {

Result<Seal> Seal::Create(const Proof& key) {
  const std::unique_ptr<EVP_MAC, void (*)(EVP_MAC*)> mac(EVP_MAC_fetch(nullptr, "HMAC", nullptr),
                                                         EVP_MAC_free);
  Context context(mac == nullptr ? nullptr : EVP_MAC_CTX_new(mac.get()), EVP_MAC_CTX_free);
  char digest[] = "SHA256";
  const OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
                               OSSL_PARAM_construct_end()};
  if (context == nullptr || EVP_MAC_init(context.get(), key.data(), key.size(), params) != 1) {
    return Internal("HMAC-SHA256 failed");
  }
  return Seal(std::move(context));
}

Result<Proof> Seal::Next(std::span<const std::span<const std::byte>> parts) {
  // Begins again with the same key.
  bool ok = EVP_MAC_init(keyed_.get(), nullptr, 0, nullptr) == 1;
  const uint64_t number = next_++;
  const auto update = [&](std::span<const std::byte> bytes) {
    ok = ok && EVP_MAC_update(keyed_.get(), reinterpret_cast<const unsigned char*>(bytes.data()),
                              bytes.size()) == 1;
  };
  update(std::as_bytes(std::span(&number, 1)));
  for (const std::span<const std::byte> part : parts) {
    update(part);
  }
  Proof code{};
  size_t size = 0;
  if (!ok || EVP_MAC_final(keyed_.get(), code.data(), &size, code.size()) != 1 ||
      size != code.size()) {
    return Internal("HMAC-SHA256 failed");
  }
  return code;
}

}  // namespace lockstep::net::internal
