// CallIo: what members exchange in one call. It begins with a meeting: every member sends every
// other one the description of the call, with small data behind it. So each knows that all came,
// and that all mean the same call, before anything else is moved.
//
//   LS_TRY(io.Meet(parcels, slots));                     small data
//   LS_TRY(io.Meet({}, {}));  LS_TRY(io.Move(1, parcels, slots));   large
//
// Messages between two members keep their order within a stage. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/collective/codec.h"
#include "lockstep/collective/internal/group_info.h"
#include "lockstep/collective/internal/operations.h"
#include "lockstep/collective/internal/shared_memory.h"

namespace lockstep::collective::internal {

// What a member is sent.
struct Parcel {
  int member;
  const void* data;
  size_t bytes;
};

// Where what a member sends goes.
struct Slot {
  int member;
  void* data;
  size_t bytes;
};

class CallIo {
 public:
  // `sequence` counts the calls of the group from 1, `description` is Describe(call). With
  // `memory`, which may be null, members meet there instead of by messages. `codec` is that of the
  // call.
  CallIo(const GroupInfo& group, uint64_t sequence, std::string_view description,
         const Deadline& deadline, SharedMemory* memory, Codec codec);

  // Sends and receives parcels with the meeting, those of one member one behind the other. All
  // members must know whose parcels to whom have how many bytes. Errors: InvalidArgument that names
  // two members and what each of them calls; as Operations.
  Status Meet(std::span<const Parcel> parcels, std::span<const Slot> slots);

  // After the meeting: each parcel is a message of its own. Stages are numbered from 1. With a
  // codec these are float32 values, and are packed on the way.
  Status Move(uint64_t stage, std::span<const Parcel> parcels, std::span<const Slot> slots);
  void Send(uint64_t stage, const Parcel& parcel, Operations& operations);
  void Receive(uint64_t stage, const Slot& slot, Operations& operations);

  // One more step of the shared memory, which there must be.
  Status Step(const char* what) { return memory_->Step(deadline_, what); }

  SharedMemory* shared_memory() const { return memory_; }

  const Deadline& deadline() const { return deadline_; }

 private:
  void SendPacked(const net::MessageKey& key, const Parcel& parcel, Operations& operations);
  void ReceivePacked(const net::MessageKey& key, const Slot& slot, Operations& operations);
  std::vector<std::byte> Greeting(int member, std::span<const Parcel> parcels) const;
  Status OnGreeting(int member, std::span<const std::byte> greeting,
                    std::span<const Slot> slots) const;

  const GroupInfo& group_;
  const uint64_t sequence_;
  const std::string_view description_;
  const Deadline deadline_;
  SharedMemory* const memory_;
  const Codec codec_;
};

// Data of up to this size goes along with the meeting.
constexpr size_t kMeetingBytes = 7168;

}  // namespace lockstep::collective::internal
