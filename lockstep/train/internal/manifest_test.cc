#include "lockstep/train/internal/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/sha256.h"

namespace lockstep::train::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const char* const kDigest = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

Manifest Example() {
  Manifest manifest;
  CheckpointContents& contents = manifest.contents;
  contents.step = 123;
  contents.epoch = 1;
  contents.next_batch_step = 23;
  contents.seed = UINT64_MAX;
  contents.model_variables = {"w", "b"};
  contents.slot_variables = {"w/m"};
  contents.program_fingerprint = "f\"1";
  contents.config = "a = 1\n";
  manifest.shards = {{512, kDigest}, {0, kDigest}};
  manifest.variables = {{{"w", VariableRole::kModel, DType::kFloat32, Shape{2, 3}}, 0},
                        {{"b", VariableRole::kModel, DType::kBFloat16, Shape{}}, 1},
                        {{"w/m", VariableRole::kSlot, DType::kInt64, Shape{0}}, 1}};
  return manifest;
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

// The text with a hash that fits, so that what is behind the hash is tested.
std::string Sealed(const std::string& text) {
  const std::string body = text.substr(0, text.rfind(",\n  \"sha256\""));
  return body + ",\n  \"sha256\": \"" + Sha256Hex(body).value() + "\"\n}\n";
}

std::string Error(const std::string& text) {
  return ParseManifest(text, "m").status().ToString();
}

std::string ErrorWith(const std::string& from, const std::string& to) {
  return Error(Sealed(Replaced(ManifestText(Example()).value(), from, to)));
}

TEST(ManifestTest, ComesBack) {
  const Result<Manifest> manifest = ParseManifest(ManifestText(Example()).value(), "m");
  ASSERT_TRUE(manifest.ok()) << manifest.status().ToString();
  const CheckpointContents& contents = manifest->contents;
  EXPECT_EQ(contents.step, 123);
  EXPECT_EQ(contents.epoch, 1);
  EXPECT_EQ(contents.next_batch_step, 23);
  EXPECT_EQ(contents.seed, UINT64_MAX);
  EXPECT_THAT(contents.model_variables, ElementsAre("w", "b"));
  EXPECT_THAT(contents.slot_variables, ElementsAre("w/m"));
  EXPECT_EQ(contents.program_fingerprint, "f\"1");
  EXPECT_EQ(contents.config, "a = 1\n");
  ASSERT_EQ(manifest->shards.size(), 2U);
  EXPECT_EQ(manifest->shards[0].bytes, 512U);
  EXPECT_EQ(manifest->shards[1].sha256, kDigest);
  ASSERT_EQ(manifest->variables.size(), 3U);
  EXPECT_EQ(manifest->variables[0].spec.shape, (Shape{2, 3}));
  EXPECT_EQ(manifest->variables[1].spec.dtype, DType::kBFloat16);
  EXPECT_EQ(manifest->variables[1].shard, 1U);
  EXPECT_EQ(manifest->variables[2].spec.name, "w/m");
  EXPECT_EQ(manifest->variables[2].spec.role, VariableRole::kSlot);
}

TEST(ManifestTest, HasTheDocumentedForm) {
  const std::string text = ManifestText(Example()).value();
  EXPECT_THAT(text, ::testing::StartsWith("{\n  \"format\": \"lockstep-checkpoint\",\n"
                                          "  \"format_version\": 1,\n  \"step\": 123,\n"));
  EXPECT_THAT(text, HasSubstr("\"file\": \"shard-00001-of-00002.safetensors\""));
  EXPECT_EQ(Sealed(text), text);
}

TEST(ManifestTest, EveryTruncationAndEveryFlippedByteIsFound) {
  const std::string text = ManifestText(Example()).value();
  for (size_t i = 0; i < text.size(); ++i) {
    EXPECT_THAT(Error(text.substr(0, i)), HasSubstr("DATA_LOSS: m: ")) << i;
    for (const int bits : {1, 0x20, 0xff}) {
      std::string flipped = text;
      flipped[i] = static_cast<char>(flipped[i] ^ bits);
      EXPECT_THAT(Error(flipped), HasSubstr("DATA_LOSS: m: ")) << i;
    }
  }
  EXPECT_THAT(Error(text + "\n"), HasSubstr("DATA_LOSS"));
}

TEST(ManifestTest, FieldsAreCheckedBehindAValidHash) {
  EXPECT_THAT(Error(""), HasSubstr("0 bytes, too short for a manifest"));
  EXPECT_THAT(ErrorWith("\"step\": 123", "\"step\": -1"),
              HasSubstr("DATA_LOSS: m: step is not a number from 0 to 9223372036854775807"));
  EXPECT_THAT(ErrorWith("\"step\": 123", "\"step\": 9223372036854775808"),
              HasSubstr("step is not"));
  EXPECT_THAT(ErrorWith("\"step\": 123", "\"step\": \"123\""), HasSubstr("step is not a number"));
  EXPECT_THAT(ErrorWith("\"step\": 123,", ""), HasSubstr("step is missing"));
  EXPECT_THAT(ErrorWith("\"epoch\": 1,", ""), HasSubstr("data.epoch is missing"));
  EXPECT_THAT(ErrorWith("\"data\": {", "\"data\": 5, \"x\": {"),
              HasSubstr("data.epoch is missing"));
  EXPECT_THAT(ErrorWith("lockstep-checkpoint", "other"),
              HasSubstr("format is 'other', expected 'lockstep-checkpoint'"));
  EXPECT_EQ(ErrorWith("\"format_version\": 1", "\"format_version\": 2"),
            "UNIMPLEMENTED: m: format version 2, this program reads 1");
  EXPECT_THAT(ErrorWith("\"format_version\": 1", "\"format_version\": 0"), HasSubstr("DATA_LOSS"));
  EXPECT_THAT(ErrorWith("\"bytes\": 512", "\"bytes\": 1.5"),
              HasSubstr("shards[0].bytes is not a number"));
  EXPECT_THAT(ErrorWith(kDigest, "ABC"), HasSubstr("shards[0].sha256 is not a SHA-256"));
  EXPECT_THAT(ErrorWith("\"shards\": [", "\"shards\": 5, \"x\": ["),
              HasSubstr("shards is not an array"));
  EXPECT_THAT(ErrorWith("\"shards\": [", "\"shards\": [], \"x\": ["),
              HasSubstr("0 shards, allowed are 1 to 99999"));
  EXPECT_THAT(ErrorWith("{\n  \"format\"", "{\n  \"x\": [, \"format\""),
              HasSubstr("DATA_LOSS: m: offset 10: not valid JSON"));
  EXPECT_THAT(Error(Sealed(ManifestText(Example()).value().insert(1, 1, '\0'))),
              HasSubstr("DATA_LOSS: m: offset 1: a zero byte"));
  EXPECT_THAT(ErrorWith("\"step\"", "\"x\": " + std::string(100'000, '[') + ", \"step\""),
              HasSubstr("nested more than 16 deep"));
}

TEST(ManifestTest, ShardsCannotPointElsewhere) {
  EXPECT_THAT(ErrorWith("shard-00000-of-00002.safetensors", "../../etc/passwd"),
              HasSubstr("shards[0].file is '../../etc/passwd', expected "
                        "'shard-00000-of-00002.safetensors'"));
  EXPECT_THAT(ErrorWith("shard-00000-of-00002", "shard-00001-of-00002"), HasSubstr("expected"));
  EXPECT_THAT(ErrorWith("\"shard\": 1", "\"shard\": 2"),
              HasSubstr("variables[1].slices[0].shard is not a number from 0 to 1"));
}

TEST(ManifestTest, VariablesAreChecked) {
  EXPECT_THAT(ErrorWith("\"name\": \"b\"", "\"name\": \"w\""),
              HasSubstr("variables[1].name: 'w' is there twice"));
  EXPECT_THAT(ErrorWith("\"role\": \"slot\"", "\"role\": \"other\""),
              HasSubstr("variables[2].role is 'other', allowed are 'model' and 'slot'"));
  EXPECT_THAT(ErrorWith("\"role\": \"model\"", "\"role\": \"slot\""),
              HasSubstr("variables[1].role: a model variable behind the slots"));
  EXPECT_THAT(ErrorWith("bfloat16", "float17"), HasSubstr("variables[1].dtype: "));
  EXPECT_THAT(ErrorWith("\"shape\": [\n        2,", "\"shape\": [\n        -2,"),
              HasSubstr("variables[0].shape holds something else than numbers from 0"));
  EXPECT_THAT(ErrorWith("\"shape\": [\n        2,", "\"shape\": [\n        4611686018427387904,"),
              HasSubstr("variables[0].shape: "));
  EXPECT_THAT(ErrorWith("\"begin\": [\n            0,", "\"begin\": [\n            1,"),
              HasSubstr("variables[0].slices[0]: from [1, 0] of shape [2, 3], the variable has [2, "
                        "3]"));
  EXPECT_THAT(ErrorWith("\"slices\": [", "\"slices\": [ {},"),
              HasSubstr("UNIMPLEMENTED: m: variables[0].slices: 2 slices"));
  EXPECT_THAT(ErrorWith("\"variables\": [", "\"variables\": [5, "),
              HasSubstr("variables[0].name is missing"));
}

TEST(ManifestTest, TextsMustBeUtf8) {
  Manifest manifest = Example();
  manifest.contents.config = "\xff";
  EXPECT_THAT(ManifestText(manifest).status().ToString(),
              HasSubstr("INVALID_ARGUMENT: a name, the fingerprint or the configuration is not "
                        "UTF-8"));
}

}  // namespace
}  // namespace lockstep::train::internal
