#include "lockstep/train/config_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "lockstep/base/quote.h"
#include "lockstep/base/suggest.h"

namespace lockstep::train {
namespace {

std::string IntsAllowed(IntRange range) {
  return fmt::format("integers from {} to {}", range.low, range.high);
}

// What a value is, for "found ...".
std::string Describe(const toml::node& node) {
  if (const toml::value<int64_t>* integer = node.as_integer()) {
    return fmt::format("{}", integer->get());
  }
  if (const toml::value<double>* real = node.as_floating_point()) {
    return fmt::format("the real number {}", real->get());
  }
  if (const toml::value<bool>* boolean = node.as_boolean()) {
    return fmt::format("{}", boolean->get());
  }
  if (const toml::value<std::string>* text = node.as_string()) {
    return Quoted(text->get());
  }
  if (const toml::array* array = node.as_array()) {
    return fmt::format("an array of {}", array->size());
  }
  return node.is_table() ? "a table" : "a date or time";
}

bool IsDigits(std::string_view text) {
  text.remove_prefix(!text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0);
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// The place of a key or, for what an override made, of the first thing inside that has one.
toml::source_region SourceOf(const toml::key& key, const toml::node& node) {
  return key.source().path != nullptr ? key.source() : node.source();
}

// Does `key` lie inside `outer`, as a.b.c and a.b[1] lie in a.b?
bool IsInside(std::string_view key, std::string_view outer) {
  return key.substr(0, outer.size()) == outer &&
         (key.size() == outer.size() || key[outer.size()] == '.' || key[outer.size()] == '[');
}

}  // namespace

void ConfigContext::Fail(std::string_view where, std::string_view message) {
  if (status.ok()) {
    status = InvalidArgument(fmt::format("{}: {}", where, message));
  }
}

const ConfigOverride* ConfigContext::OverrideOf(std::string_view key) const {
  for (size_t i = overrides.size(); i > 0; --i) {
    if (IsInside(key, overrides[i - 1].key)) {
      return &overrides[i - 1];
    }
  }
  return nullptr;
}

std::string ConfigContext::Where(std::string_view key, const toml::source_region& source) const {
  if (const ConfigOverride* found = OverrideOf(key)) {
    return found->flag;
  }
  if (source.begin.line > 0) {
    return fmt::format("{}:{}:{}", Shown(file), source.begin.line, source.begin.column);
  }
  // A section that exists only because an override names something in it.
  for (const ConfigOverride& candidate : overrides) {
    if (IsInside(candidate.key, key)) {
      return candidate.flag;
    }
  }
  return Shown(file);
}

bool RealRange::Contains(double value) const {
  return std::isfinite(value) && (value > low || (low_allowed && value == low)) &&
         (value < high || (high_allowed && value == high));
}

bool RealRange::ContainsAsFloat(double value) const {
  constexpr double kLeast = std::numeric_limits<float>::min();
  constexpr double kMost = std::numeric_limits<float>::max();
  const double size = std::fabs(value);
  return value == 0 ||
         (size >= kLeast && size <= kMost && Contains(double{static_cast<float>(value)}));
}

SectionReader::SectionReader(const toml::table* table, std::string section, ConfigContext& context)
    : table_(table), section_(std::move(section)), context_(context) {}

std::string SectionReader::FullName(std::string_view key) const {
  return section_.empty() ? Shown(key) : fmt::format("{}.{}", section_, Shown(key));
}

std::string SectionReader::where() const {
  return context_.Where(section_, table_ != nullptr ? table_->source() : toml::source_region{});
}

bool SectionReader::Has(std::string_view key) const {
  return table_ != nullptr && table_->get(key) != nullptr;
}

const toml::node* SectionReader::Find(std::string_view key) {
  known_.emplace_back(key);
  const toml::node* node = table_ != nullptr ? table_->get(key) : nullptr;
  if (node == nullptr || !context_.ok()) {
    return nullptr;
  }
  if (!node->is_table()) {
    const std::string name = FullName(key);
    context_.given[name] = context_.Where(name, node->source());
  }
  return node;
}

void SectionReader::Mismatch(std::string_view key, const toml::node& node,
                             std::string_view allowed) {
  const std::string name = FullName(key);
  std::string found = Describe(node);
  const ConfigOverride* given = context_.OverrideOf(name);
  if (given != nullptr && given->key == name && IsDigits(given->value)) {
    // Taken for text, because it fits no integer.
    found = Shown(given->value);
  }
  context_.Fail(context_.Where(name, node.source()),
                fmt::format("{}: found {}, allowed are {}", name, found, allowed));
}

void SectionReader::FailAt(std::string_view key, std::string_view message) {
  const std::string name = FullName(key);
  const toml::node* node = table_ != nullptr ? table_->get(key) : nullptr;
  context_.Fail(node != nullptr ? context_.Where(name, node->source()) : where(),
                fmt::format("{}: {}", name, message));
}

void SectionReader::Bool(std::string_view key, bool& value) {
  if (const toml::node* node = Find(key)) {
    if (const toml::value<bool>* boolean = node->as_boolean()) {
      value = boolean->get();
    } else {
      Mismatch(key, *node, "true and false");
    }
  }
}

bool SectionReader::OneInt(std::string_view key, const toml::node& node, IntRange range,
                           int64_t& value) {
  const toml::value<int64_t>* integer = node.as_integer();
  if (integer == nullptr || integer->get() < range.low || integer->get() > range.high) {
    Mismatch(key, node, IntsAllowed(range));
    return false;
  }
  value = integer->get();
  return true;
}

void SectionReader::Int(std::string_view key, IntRange range, int64_t& value) {
  if (const toml::node* node = Find(key)) {
    OneInt(key, *node, range, value);
  }
}

bool SectionReader::OneReal(std::string_view key, const toml::node& node, const RealRange& range,
                            double& value) {
  const bool is_number = node.is_integer() || node.is_floating_point();
  const double found = is_number ? node.value<double>().value_or(0) : 0;
  if (!is_number || !range.Contains(found)) {
    Mismatch(key, node, range.words);
    return false;
  }
  if (!range.ContainsAsFloat(found)) {
    const std::string name = FullName(key);
    const bool fits = std::fabs(found) <= std::numeric_limits<float>::max() &&
                      std::fabs(found) >= std::numeric_limits<float>::min();
    context_.Fail(
        context_.Where(name, node.source()),
        fits ? fmt::format("{}: found {}, which is {} in float32: allowed are {}", name,
                           Describe(node), static_cast<float>(found), range.words)
             : fmt::format("{}: found {}, allowed are {} that float32 can hold: 0, and {:.2g} to "
                           "{:.2g}",
                           name, Describe(node), range.words, std::numeric_limits<float>::min(),
                           std::numeric_limits<float>::max()));
    return false;
  }
  value = found;
  return true;
}

void SectionReader::Real(std::string_view key, const RealRange& range, double& value) {
  if (const toml::node* node = Find(key)) {
    OneReal(key, *node, range, value);
  }
}

void SectionReader::Text(std::string_view key, std::string& value) {
  const toml::node* node = Find(key);
  if (node == nullptr) {
    return;
  }
  const ConfigOverride* found = context_.OverrideOf(FullName(key));
  if (const toml::value<std::string>* text = node->as_string()) {
    value = text->get();
  } else if (found != nullptr && found->key == FullName(key)) {
    // On the command line a folder called 2024 needs no quotes.
    value = found->value;
  } else {
    return Mismatch(key, *node, "strings");
  }
  if (value.empty()) {
    Mismatch(key, *node, "strings that are not empty");
  }
}

void SectionReader::Choice(std::string_view key, std::span<const std::string_view> allowed,
                           std::string& value, std::span<const std::string_view> not_yet) {
  const toml::node* node = Find(key);
  if (node == nullptr) {
    return;
  }
  const auto has = [](std::span<const std::string_view> names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const toml::value<std::string>* text = node->as_string();
  if (text == nullptr || !(has(allowed, text->get()) || has(not_yet, text->get()))) {
    Mismatch(key, *node,
             fmt::format("{}{}", fmt::join(allowed, ", "),
                         text != nullptr ? DidYouMean(text->get(), allowed) : ""));
    return;
  }
  value = text->get();
}

void SectionReader::Pair(std::string_view key, IntRange range, std::array<int64_t, 2>& value) {
  const toml::node* node = Find(key);
  if (node == nullptr) {
    return;
  }
  const toml::array* array = node->as_array();
  if (node->is_integer()) {
    if (OneInt(key, *node, range, value[0])) {
      value[1] = value[0];
    }
  } else if (array != nullptr && array->size() == 2) {
    OneInt(key, *array->get(0), range, value[0]) && OneInt(key, *array->get(1), range, value[1]);
  } else {
    Mismatch(key, *node, IntsAllowed(range) + " and arrays of two of them");
  }
}

const toml::array* SectionReader::List(std::string_view key, std::string_view allowed) {
  const toml::node* node = Find(key);
  if (node == nullptr) {
    return nullptr;
  }
  if (!node->is_array()) {
    Mismatch(key, *node, fmt::format("arrays of {}", allowed));
  }
  return node->as_array();
}

void SectionReader::Ints(std::string_view key, IntRange range, std::vector<int64_t>& values) {
  if (const toml::array* array = List(key, IntsAllowed(range))) {
    values.clear();
    for (const toml::node& element : *array) {
      int64_t value = 0;
      if (!OneInt(key, element, range, value)) {
        return;
      }
      values.push_back(value);
    }
  }
}

void SectionReader::Reals(std::string_view key, const RealRange& range,
                          std::vector<double>& values) {
  if (const toml::array* array = List(key, range.words)) {
    values.clear();
    for (const toml::node& element : *array) {
      double value = 0;
      if (!OneReal(key, element, range, value)) {
        return;
      }
      values.push_back(value);
    }
  }
}

void SectionReader::Texts(std::string_view key, std::vector<std::string>& values) {
  if (const toml::array* array = List(key, "strings")) {
    values.clear();
    for (const toml::node& element : *array) {
      const toml::value<std::string>* text = element.as_string();
      if (text == nullptr || text->get().empty()) {
        return Mismatch(key, element, "strings that are not empty");
      }
      values.push_back(text->get());
    }
  }
}

const toml::table* SectionReader::Table(std::string_view key) {
  const toml::node* node = Find(key);
  if (node == nullptr) {
    return nullptr;
  }
  if (!node->is_table()) {
    Mismatch(key, *node, fmt::format("sections: [{}]", FullName(key)));
  }
  return node->as_table();
}

std::vector<const toml::table*> SectionReader::Tables(std::string_view key) {
  const std::string allowed = fmt::format("tables: [[{}]]", FullName(key));
  std::vector<const toml::table*> tables;
  if (const toml::array* array = List(key, allowed)) {
    for (const toml::node& element : *array) {
      if (!element.is_table()) {
        Mismatch(key, element, allowed);
        return {};
      }
      tables.push_back(element.as_table());
    }
  }
  return tables;
}

void SectionReader::Require(std::string_view key, std::string_view reason) {
  if (Has(key)) {
    return;
  }
  // A misspelt key is why it is missing.
  const std::string_view wanted[] = {key};
  if (table_ != nullptr) {
    for (const auto& [name, node] : *table_) {
      if (std::find(known_.begin(), known_.end(), name.str()) == known_.end() &&
          NearestName(name.str(), wanted) == key) {
        FailUnknown(name.str(), SourceOf(name, node), wanted);
      }
    }
  }
  context_.Fail(where(), fmt::format("missing key '{}'{}", FullName(key), reason));
}

void SectionReader::Refuse(std::string_view key, std::string_view reason) {
  if (Has(key)) {
    FailAt(key, reason);
  }
}

void SectionReader::Finish() {
  if (table_ == nullptr || !context_.ok()) {
    return;
  }
  const std::vector<std::string_view> known(known_.begin(), known_.end());
  // The first in the file, not in the alphabet.
  const toml::key* first = nullptr;
  toml::source_region first_source;
  for (const auto& [key, node] : *table_) {
    if (std::find(known.begin(), known.end(), key.str()) != known.end()) {
      continue;
    }
    const toml::source_region source = SourceOf(key, node);
    if (first == nullptr || source.begin < first_source.begin) {
      first = &key;
      first_source = source;
    }
  }
  if (first != nullptr) {
    FailUnknown(first->str(), first_source, known);
  }
}

void SectionReader::FailUnknown(std::string_view key, const toml::source_region& source,
                                std::span<const std::string_view> known) {
  const std::string name = FullName(key);
  context_.Fail(context_.Where(name, source),
                fmt::format("unknown {} {}{}", section_.empty() ? "section" : "key", Quoted(name),
                            DidYouMean(key, known)));
}

}  // namespace lockstep::train
