#include "lockstep/net/internal/reactor.h"

#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

namespace lockstep::net::internal {
namespace {

using Time = Deadline::Clock::time_point;
using PollLock = std::lock_guard<std::recursive_mutex>;

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

int64_t Ticks(Time time) {
  return time.time_since_epoch().count();
}

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

Result<std::unique_ptr<Reactor>> Reactor::Create(ReactorOptions options) {
  lockstep::internal::Descriptor epoll(epoll_create1(EPOLL_CLOEXEC));
  lockstep::internal::Descriptor event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (epoll.get() < 0 || event.get() < 0) {
    return ResourceExhausted(
        fmt::format("no descriptors for communication: {}", std::strerror(errno)));
  }
  epoll_event interest{};
  interest.events = EPOLLIN;
  interest.data.fd = event.get();
  if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, event.get(), &interest) != 0) {
    return Internal(fmt::format("epoll: {}", std::strerror(errno)));
  }

  auto reactor =
      std::make_unique<Reactor>(OnlyCreate(), options, std::move(epoll), std::move(event));
  reactor->thread_ = std::jthread([r = reactor.get()] { r->ThreadMain(); });
  return reactor;
}

Reactor::Reactor(OnlyCreate /*key*/, ReactorOptions options, lockstep::internal::Descriptor epoll,
                 lockstep::internal::Descriptor event)
    : options_(options),
      epoll_(std::move(epoll)),
      event_(std::move(event)),
      wake_at_(kNever),
      sleeps_until_(0) {}

Reactor::~Reactor() {
  stop_ = true;
  RingEvent();
  thread_.join();
}

void Reactor::RingEvent() {
  const uint64_t one = 1;
  // It fails only when the counter is full, and then the thread wakes anyhow.
  static_cast<void>(!write(event_.get(), &one, sizeof(one)));
}

void Reactor::SetTimer(std::function<Time()> timer) {
  const PollLock lock(poll_lock_);
  timer_ = std::move(timer);
}

void Reactor::WakeAt(Time when) {
  int64_t at = wake_at_.load();
  while (Ticks(when) < at && !wake_at_.compare_exchange_weak(at, Ticks(when))) {
  }
  if (asleep_.load() && Ticks(when) < sleeps_until_.load()) {
    RingEvent();
  }
}

void Reactor::AddPoller(Poller* poller) {
  {
    const PollLock lock(poll_lock_);
    pollers_.push_back(poller);
  }
  RingEvent();
}

void Reactor::RemovePoller(Poller* poller) {
  const PollLock lock(poll_lock_);
  // Not erased: PollAll may be walking the list, below us on this thread.
  std::replace(pollers_.begin(), pollers_.end(), poller, static_cast<Poller*>(nullptr));
}

Status Reactor::AddDescriptor(int fd, std::function<void()> ready) {
  const PollLock lock(poll_lock_);
  epoll_event interest{};
  interest.events = EPOLLIN | EPOLLRDHUP;
  interest.data.fd = fd;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &interest) != 0) {
    return ResourceExhausted(fmt::format("epoll: {}", std::strerror(errno)));
  }
  descriptors_[fd] = std::make_shared<std::function<void()>>(std::move(ready));
  return OkStatus();
}

void Reactor::RemoveDescriptor(int fd) {
  const PollLock lock(poll_lock_);
  if (descriptors_.erase(fd) > 0) {
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  }
}

void Reactor::Wake() {
  if (asleep_.load() && polling_.load() == 0) {
    RingEvent();
  }
}

bool Reactor::PollAll() {
  bool worked = false;
  for (size_t i = 0; i < pollers_.size(); ++i) {
    if (pollers_[i] != nullptr) {
      worked = pollers_[i]->Poll() || worked;
    }
  }
  return worked;
}

bool Reactor::PrepareSleepAll() {
  std::erase(pollers_, nullptr);
  return std::all_of(pollers_.begin(), pollers_.end(),
                     [](Poller* poller) { return poller->PrepareSleep(); });
}

void Reactor::RunTimer() {
  if (Ticks(Now()) < wake_at_.load()) {
    return;
  }
  wake_at_ = kNever;
  const Time next = timer_();
  if (next != Time::max()) {
    WakeAt(next);
  }
}

void Reactor::Sleep() {
  const int64_t until = wake_at_.load();
  sleeps_until_ = until;
  int timeout_ms = -1;
  if (until != kNever) {
    const auto left = Time(Time::duration(until)) - Now();
    // Rounded up: waking early would only be to sleep again.
    timeout_ms = static_cast<int>(std::clamp<int64_t>(
        std::chrono::ceil<std::chrono::milliseconds>(left).count(), 0, 3'600'000));
  }
  // A deadline that came between is seen here, or rings the event.
  if (wake_at_.load() < until) {
    timeout_ms = 0;
  }
  std::array<epoll_event, 16> events{};
  const int count = epoll_wait(epoll_.get(), events.data(), events.size(), timeout_ms);
  const PollLock lock(poll_lock_);
  asleep_ = false;
  for (Poller* poller : pollers_) {
    if (poller != nullptr) {
      poller->Awake();
    }
  }
  for (int i = 0; i < count; ++i) {
    const int fd = events[static_cast<size_t>(i)].data.fd;
    if (fd == event_.get()) {
      uint64_t value = 0;
      static_cast<void>(!read(fd, &value, sizeof(value)));
      continue;
    }
    const auto found = descriptors_.find(fd);
    if (found != descriptors_.end()) {
      const std::shared_ptr<std::function<void()>> ready = found->second;
      (*ready)();
    }
  }
}

void Reactor::ThreadMain() {
  Time last = Now();
  while (!stop_.load()) {
    RunTimer();
    bool sleep = false;
    {
      const PollLock lock(poll_lock_);
      if (polling_.load() > 0) {
        // The waiting thread does it, and arranges for our waking when it stops.
        asleep_ = true;
        sleep = true;
      } else if (PollAll()) {
        last = Now();
      } else if (Now() - last >= options_.thread_spin) {
        // First, so that what is queued from now on rings the event or is seen by the pollers.
        asleep_ = true;
        sleep = PrepareSleepAll();
        asleep_ = sleep;
      }
    }
    if (sleep) {
      Sleep();
      last = Now();
    } else {
      Pause();
    }
  }
}

void Reactor::Notify(std::atomic<int32_t>& pending) {
  if (sleepers_.load() > 0) {
    static_cast<void>(
        syscall(SYS_futex, &pending, FUTEX_WAKE_PRIVATE, std::numeric_limits<int>::max()));
  }
}

void Reactor::Await(const std::atomic<int32_t>& pending) {
  if (pending.load(std::memory_order_acquire) == 0) {
    return;
  }
  {
    const PollLock lock(poll_lock_);
    if (polling_.fetch_add(1) == 0) {
      for (Poller* poller : pollers_) {
        if (poller != nullptr) {
          poller->Awake();
        }
      }
    }
  }
  Time last = Now();
  while (pending.load(std::memory_order_acquire) != 0) {
    if (poll_lock_.try_lock()) {
      const bool worked = PollAll();
      poll_lock_.unlock();
      if (worked) {
        last = Now();
        continue;
      }
    }
    const auto idle = Now() - last;
    if (idle > options_.wait_spin) {
      break;
    }
    Pause();
  }
  {
    const PollLock lock(poll_lock_);
    if (polling_.fetch_sub(1) == 1 && asleep_.load()) {
      while (!PrepareSleepAll()) {
        PollAll();
      }
    }
  }
  sleepers_.fetch_add(1);
  for (int32_t left = pending.load(); left != 0; left = pending.load()) {
    // Not pending.wait(), which yields the core several times before it sleeps.
    static_cast<void>(syscall(SYS_futex, &pending, FUTEX_WAIT_PRIVATE, left, nullptr, nullptr, 0));
  }
  sleepers_.fetch_sub(1);
}

}  // namespace lockstep::net::internal
