// Deadlines of calls that ask the server to wait: the call outlasts the wait, so that the reply
// that says who is missing comes back, by a part of the wait and a few seconds at most.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "lockstep/base/deadline.h"

namespace lockstep::cluster::internal {

// The longest wait that is asked for in one call.
inline constexpr std::chrono::milliseconds kLongestWait{24 * 3600 * 1000};

// What is left, as messages say it.
inline uint32_t WaitMs(const Deadline& deadline) {
  if (deadline.infinite()) {
    return static_cast<uint32_t>(kLongestWait.count());
  }
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline.remaining());
  return static_cast<uint32_t>(std::min(left, kLongestWait).count());
}

// A call inside a call has half the grace, so that the inner one ends first.
enum class CallLevel { kOuter, kInner };

inline Deadline CallDeadline(const Deadline& deadline, CallLevel level = CallLevel::kOuter) {
  constexpr std::chrono::milliseconds kLeast{400};
  constexpr std::chrono::milliseconds kMost{4000};
  if (deadline.infinite()) {
    return deadline;
  }
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline.remaining());
  const auto grace = std::clamp(left / 4, kLeast, kMost);
  return Deadline::At(deadline.when() + (level == CallLevel::kOuter ? grace : grace / 2));
}

}  // namespace lockstep::cluster::internal
