#include "lockstep/net/internal/seal.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
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

Proof Next(Seal& seal, const std::vector<std::string>& parts) {
  std::vector<std::span<const std::byte>> spans;
  for (const std::string& part : parts) {
    spans.push_back(std::as_bytes(std::span(part)));
  }
  return seal.Next(spans).value();
}

// HMAC-SHA256 over the number and the bytes, by OpenSSL's one call.
Proof Expected(const Proof& key, uint64_t number, const std::string& text) {
  std::string message(sizeof(number), '\0');
  std::memcpy(message.data(), &number, sizeof(number));
  message += text;
  Proof code{};
  unsigned int size = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(message.data()), message.size(), code.data(), &size);
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
  const Proof first = Next(sender, {"abc"});
  const Proof second = Next(sender, {"abc"});
  EXPECT_NE(first, second);
  EXPECT_EQ(Next(receiver, {"abc"}), first);
  EXPECT_NE(Next(receiver, {"abc"}), first);
  Seal other = Seal::Create(KeyOf(8)).value();
  EXPECT_NE(Next(other, {"abc"}), first);
}

}  // namespace
}  // namespace lockstep::net::internal
