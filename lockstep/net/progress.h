// Progress: how threads wait for communication, and by which clock deadlines pass. One per
// transport: a reactor with a thread of its own, or the simulated network with its virtual clock.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "lockstep/base/deadline.h"

namespace lockstep::net {

class Progress {
 public:
  virtual ~Progress() = default;

  virtual Deadline::Clock::time_point Now() const = 0;
  // Returns once `pending` is zero; moves messages meanwhile where it can. Not from a callback.
  virtual void Await(const std::atomic<int32_t>& pending) = 0;
  // Somebody's count reached zero.
  virtual void Notify(std::atomic<int32_t>& pending) = 0;
  // `timer` is called when a time given to WakeAt has come, or earlier; it answers when to call it
  // next. Set once, before anything else.
  virtual void SetTimer(std::function<Deadline::Clock::time_point()> timer) = 0;
  virtual void WakeAt(Deadline::Clock::time_point when) = 0;
};

}  // namespace lockstep::net
