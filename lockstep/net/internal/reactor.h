// Reactor: the progress of a transport between processes. One thread serves all links: it polls
// them while there is work, spins briefly, and then sleeps on one epoll descriptor. A thread that
// waits for an operation polls by itself first, so that the answer costs no change of threads, and
// sleeps when nothing comes soon: cores belong to whoever computes.
//
// poll lock: held while pollers and descriptor callbacks run; taken again by the thread that has
// it.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/result.h"
#include "lockstep/net/progress.h"

namespace lockstep::net::internal {

// Called with the poll lock.
class Poller {
 public:
  virtual ~Poller() = default;
  // Does what there is to do, in small pieces. False if there was nothing.
  virtual bool Poll() = 0;
  // From now on a descriptor becomes ready when there is work. False if there is some already.
  virtual bool PrepareSleep() = 0;
  // Somebody polls again: no need to make a descriptor ready.
  virtual void Awake() = 0;
};

struct ReactorOptions {
  // How long a waiting thread, and the reactor's own thread, poll in vain before they sleep.
  std::chrono::microseconds wait_spin{50};
  std::chrono::microseconds thread_spin{10};
};

// Final, so that its thread meets one type of object from the constructor to the destructor.
class Reactor final : public Progress {
  struct OnlyCreate {
    explicit OnlyCreate() = default;
  };

 public:
  static Result<std::unique_ptr<Reactor>> Create(ReactorOptions options);
  Reactor(OnlyCreate, ReactorOptions options, lockstep::internal::Descriptor epoll,
          lockstep::internal::Descriptor event);
  ~Reactor() override;

  Deadline::Clock::time_point Now() const override { return Deadline::Clock::now(); }

  void Await(const std::atomic<int32_t>& pending) override;

  void Notify(std::atomic<int32_t>& pending) override;

  void WakeAt(Deadline::Clock::time_point when) override;
  void SetTimer(std::function<Deadline::Clock::time_point()> timer) override;

  void AddPoller(Poller* poller);
  // After it returned the poller is not called any more.
  void RemovePoller(Poller* poller);
  // `ready` is called when there is something to read, or the other end is gone.
  Status AddDescriptor(int fd, std::function<void()> ready);
  void RemoveDescriptor(int fd);
  // Work was queued that no descriptor tells of.
  void Wake();

  std::recursive_mutex& poll_lock() { return poll_lock_; }

 private:
  void ThreadMain();
  bool PollAll();
  bool PrepareSleepAll();
  void RunTimer();
  void Sleep();
  void RingEvent();

  const ReactorOptions options_;
  lockstep::internal::Descriptor epoll_;
  lockstep::internal::Descriptor event_;
  std::recursive_mutex poll_lock_;
  // With the poll lock:
  std::vector<Poller*> pollers_;
  std::map<int, std::shared_ptr<std::function<void()>>> descriptors_;
  std::function<Deadline::Clock::time_point()> timer_;  // set before anything else

  std::atomic<int> polling_{0};   // threads that wait and poll
  std::atomic<int> sleepers_{0};  // threads that wait and sleep
  std::atomic<bool> asleep_{false};
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> wake_at_;  // ticks of the clock
  std::atomic<int64_t> sleeps_until_;
  std::jthread thread_;
};

}  // namespace lockstep::net::internal
