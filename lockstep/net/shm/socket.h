// Unix sockets with names that no file stands for (abstract), which carry greetings and
// descriptors. Packets keep their boundaries. Errors: Unavailable when the other end is not there
// or gone, DeadlineExceeded.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/base/descriptor.h"
#include "lockstep/base/result.h"

namespace lockstep::net::shm {

using Descriptor = lockstep::internal::Descriptor;

// `name` is without the leading zero byte.
Result<Descriptor> ListenAt(const std::string& name);
Result<Descriptor> ConnectTo(const std::string& name);
Result<Descriptor> AcceptFrom(int listener, const Deadline& deadline);

struct PeerProcess {
  pid_t pid = 0;  // 0 if it is not visible from here
  uid_t uid = 0;
};

Result<PeerProcess> PeerOf(int socket);

Status SendPacket(int socket, std::span<const std::byte> packet, const std::vector<int>& fds);

struct Packet {
  std::vector<std::byte> bytes;
  std::vector<Descriptor> fds;
};

constexpr size_t kMaxPacketBytes = 4096;

// Waits for one. An empty packet means that the other end is gone.
Result<Packet> ReceivePacket(int socket, const Deadline& deadline);

// A fixed-size message as bytes and back.
template <class T>
std::span<const std::byte> BytesOf(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace lockstep::net::shm
