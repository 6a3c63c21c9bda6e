#include "lockstep/graph/attr.h"

#include <fmt/format.h>

#include <array>
#include <cstring>

namespace lockstep {

std::string_view AttrTypeName(AttrType type) {
  constexpr std::array<std::string_view, 8> kNames = {"bool", "int",   "float", "string",
                                                      "ints", "dtype", "shape", "tensor"};
  const auto index = static_cast<size_t>(type);
  LS_CHECK(index < kNames.size());
  return kNames[index];
}

bool AttrEquals(const AttrValue& a, const AttrValue& b) {
  if (a.index() != b.index()) {
    return false;
  }
  if (const auto* tensor = std::get_if<Tensor>(&a)) {
    const auto& other = std::get<Tensor>(b);
    if (!tensor->has_value() || !other.has_value()) {
      return tensor->has_value() == other.has_value();
    }
    return tensor->dtype() == other.dtype() && tensor->shape() == other.shape() &&
           std::memcmp(tensor->data(), other.data(), tensor->bytes()) == 0;
  }
  switch (TypeOf(a)) {
    case AttrType::kBool:
      return std::get<bool>(a) == std::get<bool>(b);
    case AttrType::kInt:
      return std::get<int64_t>(a) == std::get<int64_t>(b);
    case AttrType::kFloat:
      return std::get<double>(a) == std::get<double>(b);
    case AttrType::kString:
      return std::get<std::string>(a) == std::get<std::string>(b);
    case AttrType::kInts:
      return std::get<std::vector<int64_t>>(a) == std::get<std::vector<int64_t>>(b);
    case AttrType::kDType:
      return std::get<DType>(a) == std::get<DType>(b);
    case AttrType::kShape:
      return std::get<Shape>(a) == std::get<Shape>(b);
    case AttrType::kTensor:
      break;
  }
  return false;
}

std::string AttrToString(const AttrValue& value) {
  switch (TypeOf(value)) {
    case AttrType::kBool:
      return std::get<bool>(value) ? "true" : "false";
    case AttrType::kInt:
      return fmt::format("{}", std::get<int64_t>(value));
    case AttrType::kFloat:
      return fmt::format("{}", std::get<double>(value));
    case AttrType::kString:
      return fmt::format("\"{}\"", std::get<std::string>(value));
    case AttrType::kInts:
      return fmt::format("[{}]", fmt::join(std::get<std::vector<int64_t>>(value), ", "));
    case AttrType::kDType:
      return std::string(DTypeName(std::get<DType>(value)));
    case AttrType::kShape:
      return std::get<Shape>(value).ToString();
    case AttrType::kTensor:
      return std::get<Tensor>(value).ToString();
  }
  return "";
}

AttrMap::AttrMap(std::initializer_list<Entry> entries) {
  for (const Entry& entry : entries) {
    Set(entry.first, entry.second);
  }
}

void AttrMap::Set(std::string_view name, AttrValue value) {
  values_.insert_or_assign(std::string(name), std::move(value));
}

const AttrValue* AttrMap::Find(std::string_view name) const {
  const auto it = values_.find(name);
  return it == values_.end() ? nullptr : &it->second;
}

}  // namespace lockstep
