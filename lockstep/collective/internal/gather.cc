// The algorithm `gather`: every member sends every other one what that needs, in one message if it
// is small. Of a reduction these are its nodes, which the receiver combines.
#include <algorithm>
#include <cstring>
#include <span>

#include "lockstep/collective/internal/algorithms.h"

namespace lockstep::collective::internal {
namespace {

// One call as parcels and slots.
class Gather {
 public:
  explicit Gather(CallRun& run) : run_(run), call_(run.call), members_(run.group.members()) {}

  Status Run() {
    LS_TRY(Plan());
    // Both ends of a pair know what goes between them, so they agree on how it goes.
    const auto small_parcel = [this](const Parcel& parcel) {
      return MovedBytes(self(), parcel.member) <= kMeetingBytes;
    };
    const auto small_slot = [this](const Slot& slot) {
      return MovedBytes(slot.member, self()) <= kMeetingBytes;
    };
    const auto large_parcels =
        std::stable_partition(parcels_.begin(), parcels_.end(), small_parcel);
    const auto large_slots = std::stable_partition(slots_.begin(), slots_.end(), small_slot);
    LS_TRY(run_.io.Meet({parcels_.begin(), large_parcels}, {slots_.begin(), large_slots}));
    LS_TRY(run_.io.Move(1, {large_parcels, parcels_.end()}, {large_slots, slots_.end()}));
    return Finish();
  }

 private:
  int self() const { return run_.group.self; }

  std::byte* Output(int64_t element) const {
    return static_cast<std::byte*>(call_.output) + static_cast<size_t>(element) * size_;
  }

  static const std::byte* At(const void* data, int64_t element, size_t size) {
    return static_cast<const std::byte*>(data) + static_cast<size_t>(element) * size;
  }

  size_t Bytes(int64_t elements) const { return static_cast<size_t>(elements) * size_; }

  int64_t All() const { return call_.spec.shape.num_elements(); }

  // The elements of the reduced value that `member` needs.
  Part Reduced(int member) const {
    switch (call_.kind) {
      case CallKind::kAllReduce:
        return {0, All()};
      case CallKind::kReduce:
        return {0, member == call_.spec.root ? All() : 0};
      default:
        return PartOf(call_, members_, member);
    }
  }

  // What `from` sends to `to`.
  size_t MovedBytes(int from, int to) const {
    const bool from_root = from == call_.spec.root;
    const bool to_root = to == call_.spec.root;
    switch (call_.kind) {
      case CallKind::kAllReduce:
      case CallKind::kReduce:
      case CallKind::kReduceScatter:
        return Bytes(Reduced(to).count) * run_.group.num_nodes(from);
      case CallKind::kAllGather:
        return Bytes(PartOf(call_, members_, from).count);
      case CallKind::kGather:
        return to_root ? Bytes(PartOf(call_, members_, from).count) : 0;
      case CallKind::kBroadcast:
        return from_root ? Bytes(All()) : 0;
      case CallKind::kScatter:
        return from_root ? Bytes(PartOf(call_, members_, to).count) : 0;
      case CallKind::kAllToAll:
        return Bytes(ExchangedBy(call_, members_, from, to).sent.count);
      case CallKind::kBarrier:
        return 0;
    }
    return 0;
  }

  Status Plan() {
    if (call_.reduces()) {
      return PlanReduction();
    }
    for (int member = 0; member < members_; ++member) {
      if (member == self()) {
        continue;
      }
      if (const size_t bytes = MovedBytes(self(), member); bytes > 0) {
        parcels_.push_back({member, Source(member), bytes});
      }
      if (const size_t bytes = MovedBytes(member, self()); bytes > 0) {
        slots_.push_back({member, Target(member), bytes});
      }
    }
    return OkStatus();
  }

  // Where what goes to (comes from) a member begins, unless it is to be reduced.
  const void* Source(int member) const {
    switch (call_.kind) {
      case CallKind::kBroadcast:
        return call_.output;
      case CallKind::kScatter:
        return At(call_.inputs[0], PartOf(call_, members_, member).begin, size_);
      case CallKind::kAllToAll:
        return At(call_.inputs[0], ExchangedBy(call_, members_, self(), member).sent.begin, size_);
      default:
        return call_.inputs[0];
    }
  }

  void* Target(int member) const {
    switch (call_.kind) {
      case CallKind::kAllGather:
      case CallKind::kGather:
        return Output(PartOf(call_, members_, member).begin);
      case CallKind::kAllToAll:
        return Output(ExchangedBy(call_, members_, member, self()).received.begin);
      default:
        return call_.output;
    }
  }

  Status PlanReduction() {
    const Part mine = Reduced(self());
    const size_t others = run_.group.nodes.size() - run_.group.num_nodes(self());
    if (mine.count > 0) {
      LS_ASSIGN_OR_RETURN(received_, run_.scratch.Take(others, Bytes(mine.count)));
    }
    size_t next = 0;
    for (int member = 0; member < members_; ++member) {
      if (member == self()) {
        continue;
      }
      const Part theirs = Reduced(member);
      for (const void* node : call_.inputs) {
        if (theirs.count > 0) {
          parcels_.push_back({member, At(node, theirs.begin, size_), Bytes(theirs.count)});
        }
      }
      for (size_t node = 0; node < run_.group.num_nodes(member) && mine.count > 0; ++node) {
        slots_.push_back({member, received_[next++], Bytes(mine.count)});
      }
    }
    return OkStatus();
  }

  // What is left to do when everything has arrived.
  Status Finish() {
    if (call_.reduces()) {
      Combine();
      return OkStatus();
    }
    const size_t bytes = MovedBytes(self(), self());
    const bool in_place = call_.kind == CallKind::kBroadcast;
    if (bytes > 0 && !in_place && Target(self()) != Source(self())) {
      std::memmove(Target(self()), Source(self()), bytes);
    }
    return OkStatus();
  }

  void Combine() {
    const Part mine = Reduced(self());
    if (mine.count == 0) {
      return;
    }
    std::vector<const void*> own;
    for (const void* node : call_.inputs) {
      own.push_back(At(node, mine.begin, size_));
    }
    const std::vector<const void*> received(received_.begin(), received_.end());
    run_.group.tree.ReduceAll(run_.arithmetic(), AllNodes(run_.group, own, received),
                              std::span<void* const>(&call_.output, 1), mine.count);
  }

  CallRun& run_;
  const Call& call_;
  const int members_;
  const size_t size_ = run_.element_bytes();
  std::vector<Parcel> parcels_;
  std::vector<Slot> slots_;
  std::vector<void*> received_;  // nodes of the other members
};

}  // namespace

Status RunGather(CallRun& run) {
  return Gather(run).Run();
}

}  // namespace lockstep::collective::internal
