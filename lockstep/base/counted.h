// A number with its noun, for messages: "1 byte", "2 bytes".
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace lockstep {

template <class Integer>
std::string Counted(Integer count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

// For a noun with another plural: Counted(n, "class", "classes").
template <class Integer>
std::string Counted(Integer count, std::string_view one, std::string_view several) {
  return fmt::format("{} {}", count, count == 1 ? one : several);
}

}  // namespace lockstep
