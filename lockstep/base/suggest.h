// Suggestions for misspelt names, for messages such as "unknown key 'lr', did you mean
// 'learning_rate'?".
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace lockstep {

// The candidate nearest to `name` by edit distance (insert, delete, replace, swap of neighbours;
// letter case ignored), or an empty string if none is near: more than a third of its length away,
// neither contains the other, and `name` is not made of the initials of its words (which counts as
// nearest of all).
std::string_view NearestName(std::string_view name, std::span<const std::string_view> candidates);

// ", did you mean 'x'?", or empty if no candidate is near.
std::string DidYouMean(std::string_view name, std::span<const std::string_view> candidates);

}  // namespace lockstep
