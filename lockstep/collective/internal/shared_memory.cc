#include "lockstep/collective/internal/shared_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "lockstep/base/philox.h"
#include "lockstep/collective/internal/operations.h"

namespace lockstep::collective::internal {
namespace {

// Of messages that wake a member. The same in all steps: one may wake from a later sleep than it
// was sent for, which then goes on.
net::MessageKey WakeKey(const MemberList& group) {
  return {.scope = group.scope, .step = 0, .item = UINT64_MAX};
}

// How long a member looks before it sleeps. A sleeper is woken in some ten microseconds.
constexpr auto kSpin = std::chrono::microseconds(50);
constexpr int kLooksPerClock = 64;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

net::MessageHeader EmptyHeader() {
  net::MessageHeader header;
  header.shape = Shape{0};
  return header;
}

}  // namespace

// All zeros at first.
struct SharedMemory::Block {
  alignas(64) std::atomic<uint64_t> step;
  std::atomic<uint32_t> broken;  // this member has left the steps
  // By member that this one waits for, asleep.
  alignas(64) std::atomic<uint32_t> sleeps[kMaxMembers];
  alignas(64) Announcement announcements[2];
  alignas(64) std::byte staging[2][kStagingBytes];
};

bool SharedMemory::CanShare(const MemberList& group, int member) {
  const Result<net::LinkKind> kind = group.transport.link_kind(group.task(member));
  return kind.ok() && (*kind == net::LinkKind::kSelf || *kind == net::LinkKind::kSim ||
                       *kind == net::LinkKind::kShm);
}

Result<std::unique_ptr<SharedMemory>> SharedMemory::Create(const MemberList& group) {
  if (group.members() > kMaxMembers) {
    return Unimplemented(
        fmt::format("{} members: at most {} share memory", group.members(), kMaxMembers));
  }
  for (int member = 0; member < group.members(); ++member) {
    if (!CanShare(group, member)) {
      return Unimplemented(fmt::format("{} is on another host", group.task_name(member)));
    }
  }
  LS_ASSIGN_OR_RETURN(std::shared_ptr<net::Region> block,
                      group.transport.CreateRegion(sizeof(Block)));
  return std::make_unique<SharedMemory>(Private(), group, std::move(block));
}

SharedMemory::SharedMemory(Private, const MemberList& group, std::shared_ptr<net::Region> block)
    : group_(group), blocks_(static_cast<size_t>(group.members())) {
  blocks_[static_cast<size_t>(group.self)] = std::move(block);
}

Status SharedMemory::Map(std::span<const uint64_t> region_numbers, const Deadline& deadline) {
  for (int member = 0; member < group_.members(); ++member) {
    if (member == group_.self) {
      continue;
    }
    const auto at = static_cast<size_t>(member);
    LS_ASSIGN_OR_RETURN(
        blocks_[at], group_.transport.MapRegion(group_.task(member), region_numbers[at], deadline));
    if (blocks_[at]->bytes() != sizeof(Block)) {
      return Internal(fmt::format("{} shares a block of {} bytes instead of {}",
                                  group_.task_name(member), blocks_[at]->bytes(), sizeof(Block)));
    }
  }
  return OkStatus();
}

Announcement& SharedMemory::AnnouncementAt(int member, uint64_t step) {
  return BlockOf(member).announcements[step % 2];
}

std::byte* SharedMemory::StagingAt(int member, uint64_t step) {
  return BlockOf(member).staging[step % 2];
}

void SharedMemory::Publish(const Deadline& deadline) {
  step_ += 1;
  BlockOf(group_.self).step.store(step_);
  for (int member = 0; member < group_.members(); ++member) {
    std::atomic<uint32_t>& flag = BlockOf(member).sleeps[group_.self];
    if (flag.load() != 0 && flag.exchange(0) != 0) {
      group_.transport.Send(group_.task(member), WakeKey(group_), EmptyHeader(), nullptr, deadline,
                            [](const Status&) {});
    }
  }
}

bool SharedMemory::Reached(int member) {
  return BlockOf(member).step.load() >= step_;
}

bool SharedMemory::AllReached() {
  for (int member = 0; member < group_.members(); ++member) {
    if (!Reached(member)) {
      return false;
    }
  }
  return true;
}

Status SharedMemory::Step(const Deadline& deadline, const char* what) {
  Publish(deadline);
  const auto start = Deadline::Clock::now();
  for (int looks = 1; !AllReached(); ++looks) {
    Pause();
    if (looks % kLooksPerClock == 0 && Deadline::Clock::now() - start > kSpin) {
      LS_TRY(Sleep(deadline, what));
    }
  }
  for (int member = 0; member < group_.members(); ++member) {
    if (BlockOf(member).broken.load() != 0) {
      return CauseFrom(member, deadline, what);
    }
  }
  return OkStatus();
}

Status SharedMemory::CauseFrom(int member, const Deadline& deadline, const char* what) {
  for (;;) {
    Operations cause(group_, deadline, what);
    group_.transport.Recv(group_.task(member), WakeKey(group_), nullptr, 0, deadline,
                          cause.Receiving(member));
    // What arrives well was to wake this member.
    LS_TRY(cause.Wait());
  }
}

void SharedMemory::Break() {
  BlockOf(group_.self).broken.store(1);
}

Status SharedMemory::Sleep(const Deadline& deadline, const char* what) {
  Operations wakes(group_, deadline, what);
  for (int member = 0; member < group_.members(); ++member) {
    if (Reached(member)) {
      continue;
    }
    std::atomic<uint32_t>& flag = BlockOf(group_.self).sleeps[member];
    flag.store(1);
    // Taken back in time, there will be no message.
    if (Reached(member) && flag.exchange(0) != 0) {
      continue;
    }
    group_.transport.Recv(group_.task(member), WakeKey(group_), nullptr, 0, deadline,
                          wakes.Receiving(member));
  }
  return wakes.Wait();
}

Status SharedMemory::Meet(std::string_view description, const Deadline& deadline) {
  Announcement& mine = next_announcement();
  mine.hash = StableHash(description);
  mine.length = static_cast<uint32_t>(description.size());
  const size_t shown = std::min(description.size(), sizeof(mine.description));
  std::memcpy(mine.description, description.data(), shown);
  LS_TRY(Step(deadline, "did not come"));
  for (int member = 0; member < group_.members(); ++member) {
    const Announcement& theirs = announcement(member);
    if (theirs.hash != mine.hash || theirs.length != mine.length ||
        std::memcmp(theirs.description, mine.description, shown) != 0) {
      const size_t length = std::min<size_t>(theirs.length, sizeof(theirs.description));
      return InvalidArgument(
          fmt::format("{} calls {}, but {} calls {}", group_.task_name(group_.self), description,
                      group_.task_name(member), std::string_view(theirs.description, length)));
    }
  }
  return OkStatus();
}

Result<std::byte*> SharedMemory::Resolve(int member, const SharedPlace& place, size_t bytes,
                                         const Deadline& deadline) {
  std::shared_ptr<net::Region>& region = regions_[{member, place.region}];
  if (region == nullptr) {
    LS_ASSIGN_OR_RETURN(region,
                        group_.transport.MapRegion(group_.task(member), place.region, deadline));
  }
  if (place.offset > region->bytes() || bytes > region->bytes() - place.offset) {
    return Internal(fmt::format("{} shares {} bytes at {} of a region of {}",
                                group_.task_name(member), bytes, place.offset, region->bytes()));
  }
  return static_cast<std::byte*>(region->data()) + place.offset;
}

}  // namespace lockstep::collective::internal
