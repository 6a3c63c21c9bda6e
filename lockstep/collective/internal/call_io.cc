#include "lockstep/collective/internal/call_io.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "lockstep/collective/internal/packing.h"

namespace lockstep::collective::internal {
namespace {

// A greeting of another call than expected may be larger than ours, but not by much.
constexpr uint64_t kMaxGreetingBytes = uint64_t{64} << 20;
constexpr uint64_t kMeetingStage = 0;

net::MessageHeader BytesHeader(size_t bytes) {
  net::MessageHeader header;
  header.shape = Shape{static_cast<int64_t>(bytes)};
  header.bytes = bytes;
  return header;
}

}  // namespace

CallIo::CallIo(const GroupInfo& group, uint64_t sequence, std::string_view description,
               const Deadline& deadline, SharedMemory* memory, Codec codec)
    : group_(group),
      sequence_(sequence),
      description_(description),
      deadline_(deadline),
      memory_(memory),
      codec_(codec) {}

// The length of the description, the description, the parcels.
std::vector<std::byte> CallIo::Greeting(int member, std::span<const Parcel> parcels) const {
  const auto length = static_cast<uint32_t>(description_.size());
  size_t bytes = sizeof(length) + length;
  for (const Parcel& parcel : parcels) {
    bytes += parcel.member == member ? parcel.bytes : 0;
  }
  std::vector<std::byte> greeting(bytes);
  std::memcpy(greeting.data(), &length, sizeof(length));
  std::memcpy(greeting.data() + sizeof(length), description_.data(), length);
  std::byte* at = greeting.data() + sizeof(length) + length;
  for (const Parcel& parcel : parcels) {
    if (parcel.member == member && parcel.bytes > 0) {
      std::memcpy(at, parcel.data, parcel.bytes);
      at += parcel.bytes;
    }
  }
  return greeting;
}

Status CallIo::OnGreeting(int member, std::span<const std::byte> greeting,
                          std::span<const Slot> slots) const {
  uint32_t length = 0;
  if (greeting.size() >= sizeof(length)) {
    std::memcpy(&length, greeting.data(), sizeof(length));
  }
  if (greeting.size() < sizeof(length) + length) {
    return Internal(
        fmt::format("{} sent a greeting of {} bytes", group_.task_name(member), greeting.size()));
  }
  const std::string_view theirs(reinterpret_cast<const char*>(greeting.data()) + sizeof(length),
                                length);
  if (theirs != description_) {
    return InvalidArgument(fmt::format("{} calls {}, but {} calls {}",
                                       group_.task_name(group_.self), description_,
                                       group_.task_name(member), theirs));
  }
  std::span<const std::byte> data = greeting.subspan(sizeof(length) + length);
  for (const Slot& slot : slots) {
    if (slot.member != member) {
      continue;
    }
    if (slot.bytes > data.size()) {
      return Internal(fmt::format("{} sent {} bytes too few", group_.task_name(member),
                                  slot.bytes - data.size()));
    }
    if (slot.bytes > 0) {
      std::memcpy(slot.data, data.data(), slot.bytes);
    }
    data = data.subspan(slot.bytes);
  }
  return OkStatus();
}

Status CallIo::Meet(std::span<const Parcel> parcels, std::span<const Slot> slots) {
  if (memory_ != nullptr) {
    LS_TRY(memory_->Meet(description_, deadline_));
    return Move(kMeetingStage, parcels, slots);
  }
  const net::MessageKey key{.scope = group_.scope, .step = sequence_, .item = kMeetingStage};
  const auto members = static_cast<size_t>(group_.members());
  std::vector<std::vector<std::byte>> outgoing(members);
  std::vector<std::vector<std::byte>> incoming(members);
  Operations operations(group_, deadline_, "did not come");
  for (int member = 0; member < group_.members(); ++member) {
    if (member == group_.self) {
      continue;
    }
    std::vector<std::byte>& buffer = incoming[static_cast<size_t>(member)];
    group_.transport.Recv(
        group_.task(member), key,
        [&buffer](const net::MessageHeader& header) -> Result<void*> {
          if (header.bytes > kMaxGreetingBytes) {
            return Internal(fmt::format("a greeting of {} bytes", header.bytes));
          }
          buffer.resize(header.bytes);
          return static_cast<void*>(buffer.data());
        },
        deadline_, operations.Receiving(member, [this, member, &buffer, slots](uint64_t) {
          return OnGreeting(member, buffer, slots);
        }));
    std::vector<std::byte>& greeting = outgoing[static_cast<size_t>(member)];
    greeting = Greeting(member, parcels);
    group_.transport.Send(group_.task(member), key, BytesHeader(greeting.size()), greeting.data(),
                          deadline_, operations.Sending(member));
  }
  return operations.Wait();
}

void CallIo::Send(uint64_t stage, const Parcel& parcel, Operations& operations) {
  const net::MessageKey key{.scope = group_.scope, .step = sequence_, .item = stage};
  if (codec_ != Codec::kNone) {
    return SendPacked(key, parcel, operations);
  }
  group_.transport.Send(group_.task(parcel.member), key, BytesHeader(parcel.bytes), parcel.data,
                        deadline_, operations.Sending(parcel.member));
}

void CallIo::SendPacked(const net::MessageKey& key, const Parcel& parcel, Operations& operations) {
  const auto values = static_cast<int64_t>(parcel.bytes / sizeof(float));
  const std::shared_ptr<std::byte[]> packed =
      std::make_shared_for_overwrite<std::byte[]>(PackedBound(values));
  const size_t bytes = Pack(codec_, static_cast<const float*>(parcel.data), values, packed.get());
  group_.transport.Send(
      group_.task(parcel.member), key, BytesHeader(bytes), packed.get(), deadline_,
      [packed, done = operations.Sending(parcel.member)](const Status& status) { done(status); });
}

void CallIo::Receive(uint64_t stage, const Slot& slot, Operations& operations) {
  const net::MessageKey key{.scope = group_.scope, .step = sequence_, .item = stage};
  if (codec_ != Codec::kNone) {
    return ReceivePacked(key, slot, operations);
  }
  group_.transport.Recv(group_.task(slot.member), key, slot.data, slot.bytes, deadline_,
                        operations.Receiving(slot.member));
}

void CallIo::ReceivePacked(const net::MessageKey& key, const Slot& slot, Operations& operations) {
  const auto values = static_cast<int64_t>(slot.bytes / sizeof(float));
  const auto packed = std::make_shared<std::vector<std::byte>>();
  group_.transport.Recv(
      group_.task(slot.member), key,
      [packed, values](const net::MessageHeader& header) -> Result<void*> {
        if (header.bytes > PackedBound(values)) {
          return DataLoss(
              fmt::format("{} bytes are more than {} values need", header.bytes, values));
        }
        packed->resize(header.bytes);
        return static_cast<void*>(packed->data());
      },
      deadline_, operations.Receiving(slot.member, [packed, slot, values](uint64_t) {
        return Unpack(*packed, values, static_cast<float*>(slot.data));
      }));
}

Status CallIo::Move(uint64_t stage, std::span<const Parcel> parcels, std::span<const Slot> slots) {
  Operations operations(group_, deadline_, "did not send all of its part");
  for (const Slot& slot : slots) {
    Receive(stage, slot, operations);
  }
  for (const Parcel& parcel : parcels) {
    Send(stage, parcel, operations);
  }
  return operations.Wait();
}

}  // namespace lockstep::collective::internal
