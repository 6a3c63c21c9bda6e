// Ranges of numbers on the command line.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <string>
#include <type_traits>

#include "lockstep/base/quote.h"

namespace lockstep::cli {

// Whole numbers, or finite ones, from `low` to `high`; the message says which are allowed.
template <class Number>
CLI::Validator InRange(Number low, Number high) {
  return {[low, high](std::string& text) {
            Number number{};
            const char* const end = text.data() + text.size();
            const auto [rest, error] = std::from_chars(text.data(), end, number);
            // A NaN is in no range.
            if (error == std::errc() && rest == end && number >= low && number <= high) {
              return std::string();
            }
            return fmt::format("found {}, expected a {} from {} to {}", Quoted(text),
                               std::is_integral_v<Number> ? "whole number" : "number", low, high);
          },
          ""};
}

}  // namespace lockstep::cli
