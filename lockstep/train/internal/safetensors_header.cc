#include "lockstep/train/internal/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "lockstep/base/quote.h"

namespace lockstep::train::internal {
namespace {

constexpr std::array<std::pair<std::string_view, DType>, 7> kTypes = {{
    {"F32", DType::kFloat32},
    {"BF16", DType::kBFloat16},
    {"F64", DType::kFloat64},
    {"I32", DType::kInt32},
    {"I64", DType::kInt64},
    {"U8", DType::kUInt8},
    {"BOOL", DType::kBool},
}};

// Of the public format, but not of Lockstep.
constexpr std::array<std::string_view, 8> kOtherTypes = {"F16", "F8_E4M3", "F8_E5M2", "I8",
                                                         "I16", "U16",     "U32",     "U64"};

// The fields of one tensor as they are read.
struct Fields {
  std::optional<std::string> dtype;
  std::optional<std::vector<uint64_t>> shape;
  std::optional<std::vector<uint64_t>> offsets;
};

// Receives the parser's events. Every function returns whether parsing goes on; it ends with the
// first error, so nothing deeper or longer than the format allows is kept.
class HeaderHandler {
 public:
  HeaderHandler(const std::string& path, uint64_t offset, SafetensorsHeader& header)
      : path_(path), offset_(offset), header_(header) {}

  const Status& status() const { return status_; }

  // The names are those that the parser calls. NOLINTBEGIN(readability-identifier-naming)
  bool null() { return Unexpected("null"); }

  bool boolean(bool /*value*/) { return Unexpected("a truth value"); }

  bool number_integer(int64_t value) { return Unexpected(fmt::format("{}", value)); }

  bool number_float(double /*value*/, const std::string& text) { return Unexpected(text); }

  bool binary(nlohmann::json::binary_t& /*value*/) { return Unexpected("binary data"); }

  bool number_unsigned(uint64_t value) {
    if (where_ == Where::kShape) {
      return AddNumber(*fields_.shape, Shape::kMaxRank, "dimensions", value);
    }
    if (where_ == Where::kOffsets) {
      return AddNumber(*fields_.offsets, 2, "offsets", value);
    }
    return Unexpected(fmt::format("{}", value));
  }

  bool string(std::string& value) {
    if (where_ == Where::kMetadata) {
      header_.metadata[key_] = std::move(value);
      return true;
    }
    if (where_ == Where::kTensor && key_ == "dtype") {
      fields_.dtype = std::move(value);
      return true;
    }
    return Unexpected(fmt::format("the text {}", Quoted(value)));
  }

  bool key(std::string& key) {
    key_ = std::move(key);
    switch (where_) {
      case Where::kTop:
        name_ = key_;
        return names_.insert(name_).second || Fail("is there twice");
      case Where::kMetadata:
        return header_.metadata.count(key_) == 0 ||
               Fail(fmt::format("key {} is there twice", Quoted(key_)));
      default:
        return CheckField();
    }
  }

  bool start_object(size_t /*count*/) {
    if (where_ == Where::kStart) {
      where_ = Where::kTop;
      return true;
    }
    if (where_ == Where::kTop) {
      where_ = name_ == kMetadataKey ? Where::kMetadata : Where::kTensor;
      fields_ = {};
      return true;
    }
    return Unexpected("an object");
  }

  bool end_object() {
    if (where_ == Where::kTensor && !FinishTensor()) {
      return false;
    }
    where_ = where_ == Where::kTop ? Where::kEnd : Where::kTop;
    return true;
  }

  bool start_array(size_t /*count*/) {
    if (where_ == Where::kTensor && key_ == "shape") {
      where_ = Where::kShape;
      fields_.shape.emplace();
      return true;
    }
    if (where_ == Where::kTensor && key_ == "data_offsets") {
      where_ = Where::kOffsets;
      fields_.offsets.emplace();
      return true;
    }
    return Unexpected("an array");
  }

  bool end_array() {
    where_ = Where::kTensor;
    return true;
  }

  bool parse_error(size_t position, const std::string& /*token*/,
                   const nlohmann::json::exception& error) {
    // The position counts the bytes read; the last of them is the bad one.
    status_ = DataLoss(fmt::format("{}: offset {}: the header is not valid JSON: {}", path_,
                                   offset_ + position - (position > 0 ? 1 : 0),
                                   EscapeControls(Reason(error.what()))));
    return false;
  }

  // NOLINTEND(readability-identifier-naming)

 private:
  enum class Where { kStart, kTop, kMetadata, kTensor, kShape, kOffsets, kEnd };

  // Without the parser's own error number and position.
  static std::string_view Reason(std::string_view what) {
    const size_t colon = what.find(": ");
    return colon == std::string_view::npos ? what : what.substr(colon + 2);
  }

  bool Fail(const std::string& message, StatusCode code = StatusCode::kDataLoss) {
    status_ = {code, fmt::format("{}: tensor {}: {}", path_, Quoted(name_), message)};
    return false;
  }

  bool Unexpected(const std::string& found) {
    switch (where_) {
      case Where::kStart:
      case Where::kEnd:
        status_ = DataLoss(fmt::format("{}: offset {}: the header is {}, expected an object", path_,
                                       offset_, found));
        return false;
      case Where::kTop:
        return Fail(fmt::format("is {}, expected an object", found));
      case Where::kMetadata:
        return Fail(fmt::format("key {} is {}, expected a text", Quoted(key_), found));
      default:
        return Fail(fmt::format("{} has {}, expected {}", key_, found,
                                key_ == "dtype" ? "a text" : "numbers from 0"));
    }
  }

  bool AddNumber(std::vector<uint64_t>& numbers, size_t limit, std::string_view what,
                 uint64_t value) {
    if (numbers.size() == limit) {
      return Fail(fmt::format("more than {} {}", limit, what));
    }
    numbers.push_back(value);
    return true;
  }

  bool CheckField() {
    const bool known = key_ == "dtype" || key_ == "shape" || key_ == "data_offsets";
    if (!known) {
      return Fail(fmt::format("field {}, allowed are dtype, shape and data_offsets", Quoted(key_)));
    }
    const bool given = (key_ == "dtype" && fields_.dtype.has_value()) ||
                       (key_ == "shape" && fields_.shape.has_value()) ||
                       (key_ == "data_offsets" && fields_.offsets.has_value());
    return !given || Fail(fmt::format("{} is there twice", key_));
  }

  bool FinishTensor() {
    if (!fields_.dtype.has_value() || !fields_.shape.has_value() || !fields_.offsets.has_value()) {
      return Fail("needs the fields dtype, shape and data_offsets");
    }
    SafetensorsEntry entry;
    entry.name = name_;
    if (!SetType(entry) || !SetShape(entry) || !SetOffsets(entry)) {
      return false;
    }
    header_.entries.push_back(std::move(entry));
    return true;
  }

  bool SetType(SafetensorsEntry& entry) {
    for (const auto& [name, dtype] : kTypes) {
      if (*fields_.dtype == name) {
        entry.dtype = dtype;
        return true;
      }
    }
    const bool known =
        std::find(kOtherTypes.begin(), kOtherTypes.end(), *fields_.dtype) != kOtherTypes.end();
    return Fail(fmt::format("dtype {}, supported are F32, BF16, F64, I32, I64, U8, BOOL",
                            Quoted(*fields_.dtype)),
                known ? StatusCode::kUnimplemented : StatusCode::kDataLoss);
  }

  bool SetShape(SafetensorsEntry& entry) {
    std::vector<int64_t> dims;
    for (const uint64_t dim : *fields_.shape) {
      if (dim > INT64_MAX) {
        return Fail(fmt::format("the dimension {} is too large", dim));
      }
      dims.push_back(static_cast<int64_t>(dim));
    }
    Result<Shape> shape = Shape::Create(dims);
    if (!shape.ok()) {
      return Fail(shape.status().message());
    }
    entry.shape = *shape;
    return true;
  }

  bool SetOffsets(SafetensorsEntry& entry) {
    if (fields_.offsets->size() != 2) {
      return Fail("data_offsets needs two numbers");
    }
    const uint64_t begin = (*fields_.offsets)[0];
    const uint64_t end = (*fields_.offsets)[1];
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(static_cast<uint64_t>(entry.shape.num_elements()),
                               DTypeSize(entry.dtype), &bytes) ||
        begin > end || end - begin != bytes) {
      return Fail(fmt::format("data_offsets [{}, {}] do not fit {} {}", begin, end, *fields_.dtype,
                              entry.shape.ToString()));
    }
    if (__builtin_add_overflow(header_.data_begin, begin, &entry.begin) ||
        __builtin_add_overflow(header_.data_begin, end, &entry.end)) {
      return Fail(fmt::format("data_offsets [{}, {}] are too large", begin, end));
    }
    return true;
  }

  const std::string& path_;
  const uint64_t offset_;
  SafetensorsHeader& header_;
  Status status_;
  Where where_ = Where::kStart;
  std::string key_;
  // Of the tensor, or __metadata__.
  std::string name_;
  std::unordered_set<std::string> names_;
  Fields fields_;
};

}  // namespace

std::string_view SafetensorsTypeName(DType dtype) {
  for (const auto& [name, type] : kTypes) {
    if (type == dtype) {
      return name;
    }
  }
  LS_CHECK(false);
}

Status ParseHeaderJson(std::string_view json, uint64_t offset, const std::string& path,
                       SafetensorsHeader& header) {
  // The parser itself would accept white space and a byte order mark.
  if (json.empty() || json.front() != '{') {
    return DataLoss(
        fmt::format("{}: offset {}: the header does not begin with '{{'", path, offset));
  }
  // It would also take a zero byte for the end.
  const size_t zero = json.find('\0');
  if (zero != json.npos) {
    return DataLoss(fmt::format("{}: offset {}: a zero byte in the header", path, offset + zero));
  }
  HeaderHandler handler(path, offset, header);
  try {
    if (!nlohmann::json::sax_parse(json, &handler)) {
      return handler.status();
    }
  } catch (const std::bad_alloc&) {
    return ResourceExhausted(
        fmt::format("{}: no memory for a header of {} bytes", path, json.size()));
  }
  return OkStatus();
}

}  // namespace lockstep::train::internal
