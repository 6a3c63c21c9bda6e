// Attributes: the constant parameters of a node, such as strides or a name. Their names, types and
// defaults are declared by the op (OpDef::attrs), and checked when a node is made.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lockstep/tensor/tensor.h"

namespace lockstep {

// The alternatives of AttrValue in order; the numbers are part of the file format.
enum class AttrType : uint8_t {
  kBool = 0,
  kInt = 1,
  kFloat = 2,
  kString = 3,
  kInts = 4,
  kDType = 5,
  kShape = 6,
  kTensor = 7,
};

using AttrValue =
    std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, DType, Shape, Tensor>;

inline AttrType TypeOf(const AttrValue& value) {
  return static_cast<AttrType>(value.index());
}

// "bool", "int", "float", "string", "ints", "dtype", "shape", "tensor".
std::string_view AttrTypeName(AttrType type);

// Equal type and value; tensors compare element bytes.
bool AttrEquals(const AttrValue& a, const AttrValue& b);

// For messages.
std::string AttrToString(const AttrValue& value);

class AttrMap {
 public:
  using Entry = std::pair<std::string_view, AttrValue>;

  AttrMap() = default;
  AttrMap(std::initializer_list<Entry> entries);

  void Set(std::string_view name, AttrValue value);
  const AttrValue* Find(std::string_view name) const;

  // The value of an attribute that the op declares; another type or none is a programmer error.
  template <class T>
  const T& Get(std::string_view name) const {
    const AttrValue* value = Find(name);
    LS_CHECK(value != nullptr && std::holds_alternative<T>(*value));
    return std::get<T>(*value);
  }

  bool GetBool(std::string_view name) const { return Get<bool>(name); }

  int64_t GetInt(std::string_view name) const { return Get<int64_t>(name); }

  double GetFloat(std::string_view name) const { return Get<double>(name); }

  const std::string& GetString(std::string_view name) const { return Get<std::string>(name); }

  const std::vector<int64_t>& GetInts(std::string_view name) const {
    return Get<std::vector<int64_t>>(name);
  }

  auto begin() const { return values_.begin(); }

  auto end() const { return values_.end(); }

  size_t size() const { return values_.size(); }

 private:
  std::map<std::string, AttrValue, std::less<>> values_;
};

// One declared attribute. Without a default it must be given.
struct AttrDef {
  std::string_view name;
  AttrType type;
  std::optional<AttrValue> default_value = std::nullopt;
};

}  // namespace lockstep
