#include "lockstep/net/shm/socket.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstring>

namespace lockstep::net::shm {
namespace {

constexpr size_t kMaxDescriptors = 4;

Status SystemError(const char* what) {
  const int error = errno;
  const std::string message = fmt::format("{}: {}", what, std::strerror(error));
  return error == EMFILE || error == ENFILE || error == ENOMEM ? ResourceExhausted(message)
                                                               : Unavailable(message);
}

struct SocketName {
  sockaddr_un address{};
  socklen_t size = 0;
};

Result<SocketName> NameOf(const std::string& name) {
  SocketName result;
  result.address.sun_family = AF_UNIX;
  if (name.empty() || name.size() + 1 > sizeof(result.address.sun_path)) {
    return InvalidArgument(fmt::format("a socket name of {} bytes", name.size()));
  }
  std::memcpy(result.address.sun_path + 1, name.data(), name.size());
  result.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return result;
}

Result<Descriptor> NewSocket() {
  Descriptor fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (fd.get() < 0) {
    return SystemError("unix socket");
  }
  return fd;
}

Status WaitReadable(int fd, const Deadline& deadline) {
  while (true) {
    pollfd entry{fd, POLLIN, 0};
    int timeout_ms = -1;
    if (!deadline.infinite()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.remaining()).count();
      timeout_ms = static_cast<int>(std::min<int64_t>(left, INT_MAX));
    }
    const int ready = poll(&entry, 1, timeout_ms);
    if (ready > 0) {
      return OkStatus();
    }
    if (ready == 0) {
      return DeadlineExceeded("nothing came on the local socket");
    }
    if (errno != EINTR) {
      return SystemError("poll");
    }
  }
}

}  // namespace

Result<Descriptor> ListenAt(const std::string& name) {
  LS_ASSIGN_OR_RETURN(const SocketName at, NameOf(name));
  LS_ASSIGN_OR_RETURN(Descriptor fd, NewSocket());
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&at.address), at.size) != 0 ||
      listen(fd.get(), SOMAXCONN) != 0) {
    return SystemError("listening on a local socket");
  }
  return fd;
}

Result<Descriptor> ConnectTo(const std::string& name) {
  LS_ASSIGN_OR_RETURN(const SocketName at, NameOf(name));
  LS_ASSIGN_OR_RETURN(Descriptor fd, NewSocket());
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&at.address), at.size) != 0) {
    return SystemError("connecting to a local socket");
  }
  return fd;
}

Result<Descriptor> AcceptFrom(int listener, const Deadline& deadline) {
  LS_TRY(WaitReadable(listener, deadline));
  Descriptor fd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  if (fd.get() < 0) {
    return SystemError("accept");
  }
  return fd;
}

Result<PeerProcess> PeerOf(int socket) {
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return SystemError("credentials of a local socket");
  }
  return PeerProcess{credentials.pid, credentials.uid};
}

Status SendPacket(int socket, std::span<const std::byte> packet, const std::vector<int>& fds) {
  iovec part{const_cast<std::byte*>(packet.data()), packet.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxDescriptors * sizeof(int))> control{};
  LS_CHECK(fds.size() <= kMaxDescriptors);
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size() * sizeof(int));
  }
  ssize_t sent = 0;
  do {
    sent = sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent != static_cast<ssize_t>(packet.size())) {
    return SystemError("sending on a local socket");
  }
  return OkStatus();
}

Result<Packet> ReceivePacket(int socket, const Deadline& deadline) {
  LS_TRY(WaitReadable(socket, deadline));
  Packet packet;
  packet.bytes.resize(kMaxPacketBytes);
  iovec part{packet.bytes.data(), packet.bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxDescriptors * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t size = 0;
  do {
    size = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (size < 0 && errno == EINTR);
  if (size < 0) {
    if (errno == ECONNRESET) {
      size = 0;
    } else {
      return SystemError("receiving on a local socket");
    }
  }
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      packet.fds.emplace_back(fd);
    }
  }
  packet.bytes.resize(static_cast<size_t>(size));
  return packet;
}

}  // namespace lockstep::net::shm
