#include "lockstep/train/replica_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "lockstep/train/state_hash.h"

namespace lockstep::train {
namespace {

// The first 64 bits of the SHA-256 of each variable.
Result<std::vector<int64_t>> Hashes(const exec::VariableStore& store,
                                    std::span<const std::string> names) {
  std::vector<int64_t> hashes;
  for (const std::string& name : names) {
    LS_ASSIGN_OR_RETURN(const std::string hash, HashVariables(store, {&name, 1}));
    hashes.push_back(static_cast<int64_t>(std::stoull(hash.substr(0, 16), nullptr, 16)));
  }
  return hashes;
}

// The worker whose hashes most have; the first of several.
size_t MostCommon(const std::vector<std::span<const int64_t>>& hashes) {
  size_t best = 0;
  std::ptrdiff_t most = 0;
  for (size_t worker = 0; worker < hashes.size(); ++worker) {
    const std::ptrdiff_t same =
        std::count_if(hashes.begin(), hashes.end(), [&](std::span<const int64_t> other) {
          return std::equal(other.begin(), other.end(), hashes[worker].begin());
        });
    best = same > most ? worker : best;
    most = std::max(most, same);
  }
  return best;
}

}  // namespace

Status CheckReplicas(const exec::VariableStore& store, std::span<const std::string> names,
                     int64_t step, Workers& workers) {
  const auto count = static_cast<size_t>(workers.count());
  LS_ASSIGN_OR_RETURN(const std::vector<int64_t> mine, Hashes(store, names));
  std::vector<int64_t> all(names.size() * count);
  std::copy(mine.begin(), mine.end(),
            all.begin() + static_cast<std::ptrdiff_t>(names.size()) * workers.self());
  const std::vector<int64_t> counts(count, static_cast<int64_t>(names.size()));
  LS_TRY(workers.AllGather("replica_check", all, counts));
  std::vector<std::span<const int64_t>> hashes;
  for (size_t worker = 0; worker < count; ++worker) {
    hashes.push_back(std::span(all).subspan(worker * names.size(), names.size()));
  }
  const size_t right = MostCommon(hashes);
  std::string found;
  for (size_t worker = 0; worker < count; ++worker) {
    const auto differing =
        std::mismatch(hashes[worker].begin(), hashes[worker].end(), hashes[right].begin()).first;
    if (differing == hashes[worker].end()) {
      continue;
    }
    const auto first = static_cast<size_t>(differing - hashes[worker].begin());
    found += fmt::format("{}{} in '{}'", found.empty() ? "" : ", ",
                         workers.name(static_cast<int>(worker)), names[first]);
  }
  if (found.empty()) {
    return OkStatus();
  }
  return DataLoss(fmt::format(
      "after step {} the variables of workers differ from those of {}: {} (the first variable that "
      "does, by name)",
      step, workers.name(static_cast<int>(right)), found));
}

}  // namespace lockstep::train
