#include "lockstep/base/suggest.h"

#include <algorithm>
#include <vector>

namespace lockstep {
namespace {

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return lower;
}

// Optimal string alignment distance.
size_t EditDistance(std::string_view a, std::string_view b) {
  const size_t width = b.size() + 1;
  std::vector<size_t> table((a.size() + 1) * width);
  const auto at = [&](size_t i, size_t j) -> size_t& { return table[i * width + j]; };
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        at(i, j) = i + j;
        continue;
      }
      const size_t replace = at(i - 1, j - 1) + (a[i - 1] == b[j - 1] ? 0 : 1);
      at(i, j) = std::min({replace, at(i - 1, j) + 1, at(i, j - 1) + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
      }
    }
  }
  return at(a.size(), b.size());
}

// Is `name` made of the first letters of the candidate's two or more words ("lr", "learning_rate")?
bool AreInitials(std::string_view name, std::string_view candidate) {
  std::string initials;
  for (size_t i = 0; i < candidate.size(); ++i) {
    if (i == 0 || candidate[i - 1] == '_') {
      initials += candidate[i];
    }
  }
  return initials.size() >= 2 && name == initials;
}

}  // namespace

std::string_view NearestName(std::string_view name, std::span<const std::string_view> candidates) {
  // Longer names are no typing errors, and would cost quadratic time.
  constexpr size_t kMaxLength = 200;
  if (name.empty() || name.size() > kMaxLength) {
    return {};
  }
  const std::string wanted = Lower(name);
  std::string_view best;
  size_t best_distance = SIZE_MAX;
  for (const std::string_view candidate : candidates) {
    if (candidate.empty() || candidate.size() > kMaxLength) {
      continue;
    }
    const std::string lower = Lower(candidate);
    const size_t longest = std::max(wanted.size(), lower.size());
    size_t distance = EditDistance(wanted, lower);
    const bool contains =
        std::min(wanted.size(), lower.size()) >= 3 &&
        (lower.find(wanted) != std::string::npos || wanted.find(lower) != std::string::npos);
    if (AreInitials(wanted, lower)) {
      distance = 0;
    } else if (distance > std::max<size_t>(1, longest / 3)) {
      if (!contains) {
        continue;
      }
      // Behind every candidate that is near by distance.
      distance += kMaxLength;
    }
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string DidYouMean(std::string_view name, std::span<const std::string_view> candidates) {
  const std::string_view nearest = NearestName(name, candidates);
  return nearest.empty() ? std::string() : ", did you mean '" + std::string(nearest) + "'?";
}

}  // namespace lockstep
