#include "lockstep/base/hmac.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <memory>

namespace lockstep {

Result<Digest> HmacSha256(std::string_view key, std::initializer_list<std::string_view> parts) {
  const std::unique_ptr<EVP_MAC, decltype(&EVP_MAC_free)> mac(
      EVP_MAC_fetch(nullptr, "HMAC", nullptr), &EVP_MAC_free);
  const std::unique_ptr<EVP_MAC_CTX, decltype(&EVP_MAC_CTX_free)> context(
      mac == nullptr ? nullptr : EVP_MAC_CTX_new(mac.get()), &EVP_MAC_CTX_free);
  char digest_name[] = "SHA256";
  const OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest_name, 0),
      OSSL_PARAM_construct_end()};
  // An empty key is a key too; OpenSSL takes a null pointer for "none".
  const char* const key_data = key.empty() ? "" : key.data();
  if (context == nullptr ||
      EVP_MAC_init(context.get(), reinterpret_cast<const unsigned char*>(key_data), key.size(),
                   parameters) != 1) {
    return ResourceExhausted("OpenSSL cannot start an HMAC-SHA256 computation");
  }
  for (const std::string_view part : parts) {
    if (EVP_MAC_update(context.get(), reinterpret_cast<const unsigned char*>(part.data()),
                       part.size()) != 1) {
      return Internal("OpenSSL failed in an HMAC-SHA256 computation");
    }
  }
  Digest digest{};
  size_t size = 0;
  if (EVP_MAC_final(context.get(), digest.data(), &size, digest.size()) != 1 ||
      size != digest.size()) {
    return Internal("OpenSSL failed in an HMAC-SHA256 computation");
  }
  return digest;
}

bool ConstantTimeEqual(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

Status FillRandom(std::span<uint8_t> bytes) {
  constexpr size_t kMost = size_t{1} << 20;
  if (bytes.size() > kMost) {
    return InvalidArgument("more than 1 MiB of random bytes at once");
  }
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) {
    return Unavailable("the system gives no random bytes");
  }
  return OkStatus();
}

Result<uint64_t> RandomNonZero() {
  uint64_t value = 0;
  while (value == 0) {
    LS_TRY(FillRandom({reinterpret_cast<uint8_t*>(&value), sizeof(value)}));
  }
  return value;
}

}  // namespace lockstep
