#include "lockstep/base/sha256.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <utility>

namespace lockstep {

struct Sha256::State {
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context{EVP_MD_CTX_new(),
                                                                  &EVP_MD_CTX_free};
};

Sha256::Sha256(std::unique_ptr<State> state) : state_(std::move(state)) {}

Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;
Sha256::~Sha256() = default;

Result<Sha256> Sha256::Create() {
  auto state = std::make_unique<State>();
  if (state->context == nullptr ||
      EVP_DigestInit_ex(state->context.get(), EVP_sha256(), nullptr) != 1) {
    return ResourceExhausted("OpenSSL cannot start a SHA-256 computation");
  }
  return Sha256(std::move(state));
}

void Sha256::Update(const void* data, size_t size) {
  LS_CHECK(state_ != nullptr);
  LS_CHECK(EVP_DigestUpdate(state_->context.get(), data, size) == 1);
}

std::string Sha256::HexDigest() && {
  LS_CHECK(state_ != nullptr);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  LS_CHECK(EVP_DigestFinal_ex(state_->context.get(), digest.data(), &size) == 1);
  state_.reset();
  return fmt::format("{:02x}", fmt::join(digest.data(), digest.data() + size, ""));
}

Result<std::string> Sha256Hex(std::string_view data) {
  LS_ASSIGN_OR_RETURN(Sha256 hash, Sha256::Create());
  hash.Update(data);
  return std::move(hash).HexDigest();
}

}  // namespace lockstep
