// Deadline: the moment after which a blocking call gives up. A value on the steady clock; every
// blocking call takes one, and waiting for ever has to be said by name.
//
//   const Deadline deadline = Deadline::After(std::chrono::milliseconds(500));
//   while (!done) { if (!done_changed.WaitUntil(mu, deadline)) return DeadlineExceeded(...); }
#pragma once

#include <chrono>

namespace lockstep {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  // `delay` from now; a delay of zero or less has already passed, one beyond the clock's range
  // never does.
  static Deadline After(std::chrono::milliseconds delay) {
    const Clock::time_point now = Clock::now();
    const auto range =
        std::chrono::duration_cast<std::chrono::milliseconds>(Clock::time_point::max() - now);
    if (delay >= range) {
      return Infinite();
    }
    const auto none = std::chrono::milliseconds::zero();
    return Deadline(now + (delay < none ? none : delay));
  }

  static Deadline At(Clock::time_point when) { return Deadline(when); }

  static Deadline Infinite() { return Deadline(Clock::time_point::max()); }

  // Clock::time_point::max() if infinite.
  Clock::time_point when() const { return when_; }

  bool infinite() const { return when_ == Clock::time_point::max(); }

  bool expired() const { return !infinite() && Clock::now() >= when_; }

  // Zero once expired, Clock::duration::max() if infinite.
  Clock::duration remaining() const {
    if (infinite()) {
      return Clock::duration::max();
    }
    const Clock::time_point now = Clock::now();
    return now >= when_ ? Clock::duration::zero() : when_ - now;
  }

  // The earlier one compares less.
  friend auto operator<=>(const Deadline& a, const Deadline& b) = default;

 private:
  explicit Deadline(Clock::time_point when) : when_(when) {}

  Clock::time_point when_;
};

}  // namespace lockstep
