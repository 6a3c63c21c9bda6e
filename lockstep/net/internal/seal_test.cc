#include "lockstep/net/internal/seal.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <cstring>
#include <string>
#include <vector>

namespace lockstep::net::internal {
namespace {

Proof KeyOf(uint8_t byte) {
  Proof key{};
  key.fill(byte);
  return key;
}

SealCode Next(Seal& seal, const std::vector<std::string>& parts) {
  std::vector<std::span<const std::byte>> spans;
  for (const std::string& part : parts) {
    spans.push_back(std::as_bytes(std::span(part)));
  }
  return seal.Next(spans).value();
}

// GMAC is the tag of GCM over nothing but additional data.
SealCode Expected(const Proof& key, uint64_t number, const std::string& text) {
  std::array<unsigned char, 12> iv{};
  std::memcpy(iv.data() + 4, &number, sizeof(number));
  EVP_CIPHER_CTX* context = EVP_CIPHER_CTX_new();
  SealCode code{};
  int size = 0;
  EXPECT_EQ(EVP_EncryptInit_ex(context, EVP_aes_256_gcm(), nullptr, key.data(), iv.data()), 1);
  EXPECT_EQ(EVP_EncryptUpdate(context, nullptr, &size,
                              reinterpret_cast<const unsigned char*>(text.data()),
                              static_cast<int>(text.size())),
            1);
  EXPECT_EQ(EVP_EncryptFinal_ex(context, nullptr, &size), 1);
  EXPECT_EQ(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_GET_TAG, static_cast<int>(code.size()),
                                code.data()),
            1);
  EVP_CIPHER_CTX_free(context);
  return code;
}

TEST(SealTest, IsTheCodeOfNumberAndBytes) {
  Seal seal = Seal::Create(KeyOf(7)).value();
  for (uint64_t number = 0; number < 3; ++number) {
    EXPECT_EQ(Next(seal, {"abc", "", "def"}), Expected(KeyOf(7), number, "abcdef"));
  }
}

TEST(SealTest, RepeatedAndReorderedMessagesDiffer) {
  Seal sender = Seal::Create(KeyOf(7)).value();
  Seal receiver = Seal::Create(KeyOf(7)).value();
  const SealCode first = Next(sender, {"abc"});
  const SealCode second = Next(sender, {"abc"});
  EXPECT_FALSE(SameCode(first, second));
  EXPECT_TRUE(SameCode(Next(receiver, {"abc"}), first));
  EXPECT_FALSE(SameCode(Next(receiver, {"abc"}), first));
  Seal other = Seal::Create(KeyOf(8)).value();
  EXPECT_FALSE(SameCode(Next(other, {"abc"}), first));
}

}  // namespace
}  // namespace lockstep::net::internal
