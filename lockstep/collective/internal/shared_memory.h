// SharedMemory: how members of one host meet and exchange data without messages. Every member has a
// block that all others map: the number of the step that it has reached, what it calls, and two
// halves of staging memory, used in turn.
//
//   write next_announcement(), next_staging()
//   LS_TRY(memory.Step(deadline, "did not come"));     all have reached this step
//   read announcement(member), staging(member)                   until the next Step
//
// All members make the same steps. Why two halves are enough: a member writes the half of step t -
// 2 before it publishes step t, and all others have published t - 1, which they do after they have
// read what was in that half.
//
// Waiting: some microseconds looking at the numbers of the others, then asleep until a message. Who
// is about to sleep sets a flag for each member that it waits for and looks once more; who reaches
// a step looks at the flags of the others afterwards, and sends a message to those that set one.
// Not thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/collective/internal/group_info.h"
#include "lockstep/net/region.h"

namespace lockstep::collective::internal {

// Where a buffer lies: a region of its member, or none (number 0).
struct SharedPlace {
  uint64_t region = 0;
  uint64_t offset = 0;
};

constexpr size_t kMaxSharedNodes = 32;
constexpr size_t kStagingBytes = size_t{64} << 10;  // of one half

// What a member says at the first step of a call.
struct Announcement {
  uint64_t hash;    // of the whole description
  uint32_t length;  // of the whole description
  char description[404];
  SharedPlace nodes[kMaxSharedNodes];
  SharedPlace output;
};

class SharedMemory {
  struct Private {
    explicit Private() = default;
  };

 public:
  static constexpr int kMaxMembers = 64;

  // Whether the links allow it.
  static bool CanShare(const MemberList& group, int member);

  // Unimplemented where this task cannot share memory with all others. `group` must outlive it.
  static Result<std::unique_ptr<SharedMemory>> Create(const MemberList& group);
  SharedMemory(Private, const MemberList& group, std::shared_ptr<net::Region> block);

  // Of this member's block.
  uint64_t region_number() const { return blocks_[static_cast<size_t>(group_.self)]->number(); }

  // Maps the blocks of the others, by member.
  Status Map(std::span<const uint64_t> region_numbers, const Deadline& deadline);

  // This member's, for the next step.
  Announcement& next_announcement() { return AnnouncementAt(group_.self, step_ + 1); }

  std::byte* next_staging() { return StagingAt(group_.self, step_ + 1); }

  // Of the latest step.
  const Announcement& announcement(int member) { return AnnouncementAt(member, step_); }

  const std::byte* staging(int member) { return StagingAt(member, step_); }

  // Goes to the next step and waits until all have reached it. `what` is said of those that do not,
  // as in Operations. Errors: as Operations.
  Status Step(const Deadline& deadline, const char* what);

  // Step with a description that must be the same at all members. Errors: InvalidArgument that
  // names two of them.
  Status Meet(std::string_view description, const Deadline& deadline);

  // This member makes no more steps. It tells the others why by ending the scope there: whoever
  // reaches a step afterwards waits for that.
  void Break();

  // Memory that `place` of `member` stands for, of at least `bytes`. Maps the region when it is
  // first used.
  Result<std::byte*> Resolve(int member, const SharedPlace& place, size_t bytes,
                             const Deadline& deadline);

 private:
  struct Block;

  Block& BlockOf(int member) {
    return *static_cast<Block*>(blocks_[static_cast<size_t>(member)]->data());
  }

  Announcement& AnnouncementAt(int member, uint64_t step);
  std::byte* StagingAt(int member, uint64_t step);
  void Publish(const Deadline& deadline);
  bool Reached(int member);
  bool AllReached();
  Status Sleep(const Deadline& deadline, const char* what);
  // Waits for the reason why a member is broken, which is on its way.
  Status CauseFrom(int member, const Deadline& deadline, const char* what);

  const MemberList& group_;
  uint64_t step_ = 0;
  std::vector<std::shared_ptr<net::Region>> blocks_;                          // by member
  std::map<std::pair<int, uint64_t>, std::shared_ptr<net::Region>> regions_;  // by member, number
};

}  // namespace lockstep::collective::internal
