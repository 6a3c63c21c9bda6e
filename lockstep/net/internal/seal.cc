#include "lockstep/net/internal/seal.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <cstring>

namespace lockstep::net::internal {
namespace {

using Iv = std::array<uint8_t, 12>;

}  // namespace

Result<Seal> Seal::Create(const Proof& key) {
  const std::unique_ptr<EVP_MAC, void (*)(EVP_MAC*)> mac(EVP_MAC_fetch(nullptr, "GMAC", nullptr),
                                                         EVP_MAC_free);
  Context context(mac == nullptr ? nullptr : EVP_MAC_CTX_new(mac.get()), EVP_MAC_CTX_free);
  char cipher[] = "AES-256-GCM";
  Iv iv{};
  const OSSL_PARAM params[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_CIPHER, cipher, 0),
      OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_IV, iv.data(), iv.size()),
      OSSL_PARAM_construct_end()};
  if (context == nullptr || EVP_MAC_init(context.get(), key.data(), key.size(), params) != 1) {
    return Internal("AES-256-GMAC failed");
  }
  return Seal(std::move(context));
}

Result<SealCode> Seal::Next(std::span<const std::span<const std::byte>> parts) {
  Iv iv{};
  std::memcpy(iv.data() + 4, &next_, sizeof(next_));
  next_ += 1;
  const OSSL_PARAM params[] = {
      OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_IV, iv.data(), iv.size()),
      OSSL_PARAM_construct_end()};
  bool ok = EVP_MAC_init(keyed_.get(), nullptr, 0, params) == 1;
  for (const std::span<const std::byte> part : parts) {
    ok = ok && EVP_MAC_update(keyed_.get(), reinterpret_cast<const unsigned char*>(part.data()),
                              part.size()) == 1;
  }
  SealCode code{};
  size_t size = 0;
  if (!ok || EVP_MAC_final(keyed_.get(), code.data(), &size, code.size()) != 1 ||
      size != code.size()) {
    return Internal("AES-256-GMAC failed");
  }
  return code;
}

bool SameCode(const SealCode& a, const SealCode& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace lockstep::net::internal
