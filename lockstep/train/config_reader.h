// For config*.cc only, because it includes toml++: reads one TOML table key by key, checks each
// value and refuses what nobody asked for. The first error of the whole configuration is kept;
// after it everything else is a no-op, so that callers need not check after each key.
//
//   SectionReader reader(table, "train", context);
//   reader.Int("steps", {0, 1000}, config.steps);
//   reader.Finish();
#pragma once

#include <toml++/toml.h>

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/status.h"
#include "lockstep/train/config.h"

namespace lockstep::train {

// What the readers of one configuration share.
struct ConfigContext {
  std::string file;
  std::span<const ConfigOverride> overrides;
  Status status;
  std::map<std::string, std::string, std::less<>> given;

  bool ok() const { return status.ok(); }

  // Keeps the error if it is the first.
  void Fail(std::string_view where, std::string_view message);

  // The override that gave `key` or something around it, or null.
  const ConfigOverride* OverrideOf(std::string_view key) const;

  // "file:line:column", "file" if the place is not known, or the flag that gave `key`.
  std::string Where(std::string_view key, const toml::source_region& source) const;
};

struct IntRange {
  int64_t low;
  int64_t high;
};

// Finite numbers between the bounds; `words` says in a message what is allowed.
struct RealRange {
  double low;
  bool low_allowed;
  double high;
  bool high_allowed;
  std::string_view words;

  bool Contains(double value) const;
  // Whether the kernels, which compute in float32 and take denormals for zero, see a number of the
  // range too, and not infinity, zero or a bound in its place.
  bool ContainsAsFloat(double value) const;
};

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr RealRange kNotNegative = {0, true, kInfinity, false, "numbers of at least 0"};
constexpr RealRange kPositive = {0, false, kInfinity, false, "numbers greater than 0"};
constexpr RealRange kBelowOne = {0, true, 1, false, "numbers from 0 to less than 1"};
constexpr RealRange kUpToOne = {0, false, 1, true, "numbers greater than 0 and at most 1"};

class SectionReader {
 public:
  // A null table is an empty one. `where` is used for missing keys.
  SectionReader(const toml::table* table, std::string section, ConfigContext& context);

  // Each stores the value if the key is there and leaves it alone otherwise.
  void Bool(std::string_view key, bool& value);
  void Int(std::string_view key, IntRange range, int64_t& value);
  void Real(std::string_view key, const RealRange& range, double& value);
  void Text(std::string_view key, std::string& value);
  // `not_yet`: values that the format has and the program refuses, so that no message offers them.
  void Choice(std::string_view key, std::span<const std::string_view> allowed, std::string& value,
              std::span<const std::string_view> not_yet = {});
  // One integer for both, or an array of two.
  void Pair(std::string_view key, IntRange range, std::array<int64_t, 2>& value);
  void Ints(std::string_view key, IntRange range, std::vector<int64_t>& values);
  void Reals(std::string_view key, const RealRange& range, std::vector<double>& values);
  void Texts(std::string_view key, std::vector<std::string>& values);

  // The table under the key, null if there is none; its keys are the caller's to read.
  const toml::table* Table(std::string_view key);
  // The tables of an array of tables.
  std::vector<const toml::table*> Tables(std::string_view key);

  bool Has(std::string_view key) const;

  // Fails if the key is not there, or for an unknown key that is this one misspelt. `reason` ends
  // the message: " for data.source = 'mnist'".
  void Require(std::string_view key, std::string_view reason = "");
  // Fails if it is, because it would have no effect.
  void Refuse(std::string_view key, std::string_view reason);
  // Fails at the place of the key: "section.key: message".
  void FailAt(std::string_view key, std::string_view message);

  // Fails for the first key that none of the methods above named.
  void Finish();

  // Where the section itself stands.
  std::string where() const;

 private:
  // The node under the key, null if there is none or an error came before. Notes the key as known
  // and as given.
  const toml::node* Find(std::string_view key);
  // "section.key".
  std::string FullName(std::string_view key) const;
  // A number of the value, checked; `node` is the key's value or an element of it.
  bool OneReal(std::string_view key, const toml::node& node, const RealRange& range, double& value);
  // "section.key: found ..., allowed are ...".
  void Mismatch(std::string_view key, const toml::node& node, std::string_view allowed);
  // The elements of an array, or nothing after an error.
  const toml::array* List(std::string_view key, std::string_view allowed);
  void FailUnknown(std::string_view key, const toml::source_region& source,
                   std::span<const std::string_view> known);
  // One integer of the key's value, checked.
  bool OneInt(std::string_view key, const toml::node& node, IntRange range, int64_t& value);

  const toml::table* table_;
  std::string section_;
  ConfigContext& context_;
  std::vector<std::string> known_;
};

// The parts of a configuration that have a file of their own.
void ReadModel(SectionReader& reader, ConfigContext& context, ModelConfig& model);
void ReadOptimizer(SectionReader& reader, ConfigContext& context, OptimizerConfig& optimizer);

}  // namespace lockstep::train
