#include "lockstep/base/format_time.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>

namespace lockstep {

std::string FormatDuration(double seconds) {
  constexpr double kLongest = 1e12;
  if (!(seconds >= 0) || seconds > kLongest) {
    return "?";
  }
  if (seconds < 9.95) {
    return fmt::format("{:.1f}s", seconds);
  }
  const int64_t whole = std::llround(seconds);
  constexpr int64_t kMinute = 60;
  constexpr int64_t kHour = 60 * kMinute;
  constexpr int64_t kDay = 24 * kHour;
  if (whole < kMinute) {
    return fmt::format("{}s", whole);
  }
  if (whole < kHour) {
    return fmt::format("{}m{:02}s", whole / kMinute, whole % kMinute);
  }
  if (whole < kDay) {
    return fmt::format("{}h{:02}m", whole / kHour, whole % kHour / kMinute);
  }
  return fmt::format("{}d{:02}h", whole / kDay, whole % kDay / kHour);
}

}  // namespace lockstep
