#include "lockstep/base/sha256.h"

#include <gtest/gtest.h>

#include <utility>

namespace lockstep {
namespace {

// Examples of FIPS 180-4, and the empty message.
TEST(Sha256Test, KnownAnswers) {
  EXPECT_EQ(Sha256Hex("").value(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Hex("abc").value(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256Hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq").value(),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(Sha256Hex(std::string(1000000, 'a')).value(),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256Test, PiecesAddUp) {
  Sha256 hash = Sha256::Create().value();
  hash.Update("a");
  hash.Update("");
  hash.Update("bc");
  EXPECT_EQ(std::move(hash).HexDigest(), Sha256Hex("abc").value());
}

}  // namespace
}  // namespace lockstep
