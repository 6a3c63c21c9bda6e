#include "lockstep/train/internal/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <new>
#include <nlohmann/json.hpp>
#include <set>
#include <type_traits>
#include <utility>

#include "lockstep/base/counted.h"
#include "lockstep/base/quote.h"
#include "lockstep/base/sha256.h"

namespace lockstep::train::internal {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "lockstep-checkpoint";
constexpr int64_t kVersion = 1;
constexpr size_t kMaxShards = 99'999;
constexpr int kMaxDepth = 16;
constexpr size_t kDigestDigits = 64;
// What surrounds the hash at the end.
constexpr std::string_view kSealBegin = ",\n  \"sha256\": \"";
constexpr std::string_view kSealEnd = "\"\n}\n";

std::string_view RoleName(VariableRole role) {
  return role == VariableRole::kModel ? "model" : "slot";
}

bool IsDigest(std::string_view text) {
  return text.size() == kDigestDigits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

// Reads fields and keeps the first error, after which everything is empty.
class FieldReader {
 public:
  explicit FieldReader(std::string path) : path_(std::move(path)) {}

  const Status& status() const { return status_; }

  void Fail(const std::string& message, StatusCode code = StatusCode::kDataLoss) {
    if (status_.ok()) {
      status_ = {code, fmt::format("{}: {}", path_, message)};
    }
  }

  // The member, or null, which no type accepts and which has no elements, if there is an error.
  const Json& Member(const Json& object, const std::string& key, const std::string& where) {
    if (object.is_object()) {
      const auto it = object.find(key);
      if (it != object.end()) {
        return *it;
      }
    }
    Fail(fmt::format("{}{} is missing", where, key));
    return null_;
  }

  std::string Text(const Json& object, const std::string& key, const std::string& where) {
    const Json& value = Member(object, key, where);
    if (value.is_string()) {
      return value.get<std::string>();
    }
    Fail(fmt::format("{}{} is not a text", where, key));
    return {};
  }

  uint64_t Unsigned(const Json& object, const std::string& key, const std::string& where,
                    uint64_t max) {
    const Json& value = Member(object, key, where);
    if (value.is_number_unsigned() && value.get<uint64_t>() <= max) {
      return value.get<uint64_t>();
    }
    Fail(fmt::format("{}{} is not a number from 0 to {}", where, key, max));
    return 0;
  }

  int64_t Count(const Json& object, const std::string& key, const std::string& where) {
    return static_cast<int64_t>(Unsigned(object, key, where, INT64_MAX));
  }

  const Json& Array(const Json& object, const std::string& key, const std::string& where) {
    const Json& value = Member(object, key, where);
    if (value.is_array()) {
      return value;
    }
    Fail(fmt::format("{}{} is not an array", where, key));
    return null_;
  }

  Shape Dims(const Json& object, const std::string& key, const std::string& where) {
    std::vector<int64_t> dims;
    for (const Json& dim : Array(object, key, where)) {
      if (!dim.is_number_unsigned() || dim.get<uint64_t>() > INT64_MAX) {
        Fail(fmt::format("{}{} holds something else than numbers from 0", where, key));
        return {};
      }
      dims.push_back(dim.get<int64_t>());
    }
    const Result<Shape> shape = Shape::Create(dims);
    if (!shape.ok()) {
      Fail(fmt::format("{}{}: {}", where, key, shape.status().message()));
      return {};
    }
    return *shape;
  }

 private:
  const std::string path_;
  const Json null_;
  Status status_;
};

// Checks the hash at the end and returns the bytes before it.
Result<std::string_view> CheckSeal(std::string_view text, const std::string& path) {
  const size_t seal_bytes = kSealBegin.size() + kDigestDigits + kSealEnd.size();
  if (text.size() < seal_bytes) {
    return DataLoss(
        fmt::format("{}: {}, too short for a manifest", path, Counted(text.size(), "byte")));
  }
  const std::string_view body = text.substr(0, text.size() - seal_bytes);
  const std::string_view seal = text.substr(body.size());
  const std::string_view digest = seal.substr(kSealBegin.size(), kDigestDigits);
  if (seal.substr(0, kSealBegin.size()) != kSealBegin ||
      seal.substr(kSealBegin.size() + kDigestDigits) != kSealEnd || !IsDigest(digest)) {
    return DataLoss(
        fmt::format("{}: offset {}: expected the SHA-256 of the manifest as its last member", path,
                    body.size()));
  }
  LS_ASSIGN_OR_RETURN(const std::string found, Sha256Hex(body));
  if (found != digest) {
    return DataLoss(fmt::format("{}: its bytes 0 to {} have the SHA-256 {}, it says {}", path,
                                body.size(), found, digest));
  }
  return body;
}

// Bounds the memory of the parsed form.
bool NestsDeeperThan(std::string_view json, int limit) {
  int depth = 0;
  bool in_text = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_text) {
      i += c == '\\' ? 1 : 0;
      in_text = c != '"';
    } else if (c == '"') {
      in_text = true;
    } else if (c == '{' || c == '[') {
      if (++depth > limit) {
        return true;
      }
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

Result<Json> ParseJson(std::string_view text, const std::string& path) {
  if (NestsDeeperThan(text, kMaxDepth)) {
    return DataLoss(fmt::format("{}: nested more than {} deep", path, kMaxDepth));
  }
  // The parser would take it for the end.
  if (text.find('\0') != text.npos) {
    return DataLoss(fmt::format("{}: offset {}: a zero byte", path, text.find('\0')));
  }
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    return DataLoss(
        fmt::format("{}: offset {}: not valid JSON", path, error.byte > 0 ? error.byte - 1 : 0));
  } catch (const std::exception& error) {
    return DataLoss(fmt::format("{}: not valid JSON: {}", path, EscapeControls(error.what())));
  }
}

void ReadContents(const Json& json, FieldReader& reader, CheckpointContents& contents) {
  contents.step = reader.Count(json, "step", "");
  const Json& data = reader.Member(json, "data", "");
  contents.epoch = reader.Count(data, "epoch", "data.");
  contents.next_batch_step = reader.Count(data, "next_batch_step", "data.");
  contents.seed = reader.Unsigned(json, "seed", "", UINT64_MAX);
  contents.program_fingerprint = reader.Text(json, "program_fingerprint", "");
  contents.config = reader.Text(json, "config", "");
}

void ReadShards(const Json& json, FieldReader& reader, std::vector<FileDigest>& shards) {
  const Json& array = reader.Array(json, "shards", "");
  if (array.empty() || array.size() > kMaxShards) {
    reader.Fail(fmt::format("{} shards, allowed are 1 to {}", array.size(), kMaxShards));
    return;
  }
  for (size_t i = 0; i < array.size(); ++i) {
    const std::string where = fmt::format("shards[{}].", i);
    const std::string name = reader.Text(array[i], "file", where);
    // Only this name: a manifest must not be able to point at other files.
    if (name != ShardName(i, array.size())) {
      reader.Fail(fmt::format("{}file is {}, expected '{}'", where, Quoted(name),
                              ShardName(i, array.size())));
    }
    FileDigest digest;
    digest.bytes = reader.Unsigned(array[i], "bytes", where, INT64_MAX);
    digest.sha256 = reader.Text(array[i], "sha256", where);
    if (!IsDigest(digest.sha256)) {
      reader.Fail(fmt::format("{}sha256 is not a SHA-256 in hexadecimal", where));
    }
    if (!reader.status().ok()) {
      return;
    }
    shards.push_back(std::move(digest));
  }
}

// The shard of the one slice.
size_t ReadSlice(const Json& json, const std::string& where, const Shape& shape, size_t shards,
                 FieldReader& reader) {
  const Json& slices = reader.Array(json, "slices", where);
  if (!reader.status().ok()) {
    return 0;
  }
  if (slices.size() != 1) {
    reader.Fail(fmt::format("{}slices: {} slices, this version reads variables of one", where,
                            slices.size()),
                StatusCode::kUnimplemented);
    return 0;
  }
  const std::string slice_where = where + "slices[0].";
  const size_t shard = reader.Unsigned(slices[0], "shard", slice_where, shards - 1);
  const Shape begin = reader.Dims(slices[0], "begin", slice_where);
  const Shape size = reader.Dims(slices[0], "shape", slice_where);
  const bool from_zero = std::all_of(begin.dims().begin(), begin.dims().end(),
                                     [](int64_t position) { return position == 0; });
  if (begin.rank() != shape.rank() || !from_zero || !(size == shape)) {
    reader.Fail(fmt::format("{}slices[0]: from {} of shape {}, the variable has {}", where,
                            begin.ToString(), size.ToString(), shape.ToString()));
  }
  return shard;
}

ManifestVariable ReadVariable(const Json& json, const std::string& where, size_t shards,
                              FieldReader& reader) {
  ManifestVariable variable;
  VariableSpec& spec = variable.spec;
  spec.name = reader.Text(json, "name", where);
  const std::string role = reader.Text(json, "role", where);
  if (role != "model" && role != "slot") {
    reader.Fail(fmt::format("{}role is {}, allowed are 'model' and 'slot'", where, Quoted(role)));
  }
  spec.role = role == "model" ? VariableRole::kModel : VariableRole::kSlot;
  const Result<DType> dtype = ParseDType(reader.Text(json, "dtype", where));
  if (dtype.ok()) {
    spec.dtype = *dtype;
  } else {
    reader.Fail(fmt::format("{}dtype: {}", where, dtype.status().message()));
  }
  spec.shape = reader.Dims(json, "shape", where);
  variable.shard = ReadSlice(json, where, spec.shape, shards, reader);
  return variable;
}

void ReadVariables(const Json& json, FieldReader& reader, Manifest& manifest) {
  std::set<std::string> names;
  const Json& array = reader.Array(json, "variables", "");
  for (size_t i = 0; i < array.size() && reader.status().ok(); ++i) {
    const std::string where = fmt::format("variables[{}].", i);
    ManifestVariable variable = ReadVariable(array[i], where, manifest.shards.size(), reader);
    const bool model = variable.spec.role == VariableRole::kModel;
    if (!names.insert(variable.spec.name).second) {
      reader.Fail(fmt::format("{}name: {} is there twice", where, Quoted(variable.spec.name)));
    }
    if (model && !manifest.contents.slot_variables.empty()) {
      reader.Fail(fmt::format("{}role: a model variable behind the slots", where));
    }
    (model ? manifest.contents.model_variables : manifest.contents.slot_variables)
        .push_back(variable.spec.name);
    manifest.variables.push_back(std::move(variable));
  }
}

Json VariableJson(const ManifestVariable& variable) {
  const VariableSpec& spec = variable.spec;
  const std::vector<int64_t> dims(spec.shape.dims().begin(), spec.shape.dims().end());
  Json slice;
  slice["shard"] = variable.shard;
  slice["begin"] = std::vector<int64_t>(dims.size(), 0);
  slice["shape"] = dims;
  Json json;
  json["name"] = spec.name;
  json["role"] = RoleName(spec.role);
  json["dtype"] = DTypeName(spec.dtype);
  json["shape"] = dims;
  json["slices"] = Json::array({std::move(slice)});
  return json;
}

}  // namespace

std::string ShardName(size_t index, size_t count) {
  return fmt::format("shard-{:05}-of-{:05}.safetensors", index, count);
}

Result<std::string> ManifestText(const Manifest& manifest) {
  const CheckpointContents& contents = manifest.contents;
  Json json;
  json["format"] = kFormat;
  json["format_version"] = kVersion;
  json["step"] = contents.step;
  json["data"]["epoch"] = contents.epoch;
  json["data"]["next_batch_step"] = contents.next_batch_step;
  json["seed"] = contents.seed;
  json["program_fingerprint"] = contents.program_fingerprint;
  json["config"] = contents.config;
  json["shards"] = Json::array();
  for (size_t i = 0; i < manifest.shards.size(); ++i) {
    Json shard;
    shard["file"] = ShardName(i, manifest.shards.size());
    shard["bytes"] = manifest.shards[i].bytes;
    shard["sha256"] = manifest.shards[i].sha256;
    json["shards"].push_back(std::move(shard));
  }
  json["variables"] = Json::array();
  for (const ManifestVariable& variable : manifest.variables) {
    json["variables"].push_back(VariableJson(variable));
  }
  try {
    constexpr int kIndent = 2;
    std::string text = json.dump(kIndent);
    // Without the "\n}" that closes the object, in whose place the seal comes.
    text.resize(text.size() - 2);
    LS_ASSIGN_OR_RETURN(const std::string digest, Sha256Hex(text));
    return text.append(kSealBegin).append(digest).append(kSealEnd);
  } catch (const Json::exception& error) {
    return InvalidArgument(
        fmt::format("a name, the fingerprint or the configuration is not UTF-8: {}",
                    EscapeControls(error.what())));
  }
}

Result<Manifest> ParseManifest(std::string_view text, const std::string& path) {
  LS_ASSIGN_OR_RETURN(const std::string_view body, CheckSeal(text, path));
  LS_ASSIGN_OR_RETURN(const Json json, ParseJson(std::string(body) + "\n}", path));
  FieldReader reader(path);
  const std::string format = reader.Text(json, "format", "");
  const int64_t version = reader.Count(json, "format_version", "");
  if (format != kFormat) {
    reader.Fail(fmt::format("format is {}, expected '{}'", Quoted(format), kFormat));
  }
  if (version != kVersion) {
    reader.Fail(fmt::format("format version {}, this program reads {}", version, kVersion),
                version > kVersion ? StatusCode::kUnimplemented : StatusCode::kDataLoss);
  }
  Manifest manifest;
  ReadContents(json, reader, manifest.contents);
  ReadShards(json, reader, manifest.shards);
  LS_TRY(reader.status());
  ReadVariables(json, reader, manifest);
  LS_TRY(reader.status());
  return manifest;
}

}  // namespace lockstep::train::internal
