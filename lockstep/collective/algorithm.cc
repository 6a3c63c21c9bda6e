#include "lockstep/collective/algorithm.h"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace lockstep::collective {
namespace {

constexpr std::array<std::pair<Algorithm, std::string_view>, 6> kNames = {{
    {Algorithm::kAuto, "auto"},
    {Algorithm::kGather, "gather"},
    {Algorithm::kPairwise, "pairwise"},
    {Algorithm::kHalvingDoubling, "halving_doubling"},
    {Algorithm::kTwoLevel, "two_level"},
    {Algorithm::kShared, "shared"},
}};

}  // namespace

std::string_view AlgorithmName(Algorithm algorithm) {
  for (const auto& [value, name] : kNames) {
    if (value == algorithm) {
      return name;
    }
  }
  return "unknown";
}

Result<Algorithm> ParseAlgorithm(std::string_view name) {
  std::string allowed;
  for (const auto& [value, known] : kNames) {
    if (known == name) {
      return value;
    }
    allowed += fmt::format("{}{}", allowed.empty() ? "" : ", ", known);
  }
  return InvalidArgument(
      fmt::format("there is no collective algorithm '{}': allowed are {}", name, allowed));
}

}  // namespace lockstep::collective
