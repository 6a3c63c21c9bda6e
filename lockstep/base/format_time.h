// Durations for people.
#pragma once

#include <string>

namespace lockstep {

// Two units at most: "0.4s", "12s", "3m05s", "1h02m", "2d03h". Negative, infinite or NaN: "?".
std::string FormatDuration(double seconds);

}  // namespace lockstep
