#include "lockstep/cluster/launch/held_ports.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "lockstep/base/file.h"

namespace lockstep::cluster {
namespace {

using lockstep::internal::Descriptor;

union AnyAddress {
  sockaddr any;
  sockaddr_in four;
  sockaddr_in6 six;
};

socklen_t FillLoopback(int family, AnyAddress& address) {
  std::memset(&address, 0, sizeof(address));
  if (family == AF_INET) {
    address.four.sin_family = AF_INET;
    address.four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return sizeof(address.four);
  }
  address.six.sin6_family = AF_INET6;
  address.six.sin6_addr = in6addr_loopback;
  return sizeof(address.six);
}

// 0 or the errno.
int HoldPort(int family, std::vector<HeldPort>& ports) {
  Descriptor socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (socket.get() < 0) {
    return errno;
  }
  AnyAddress address;
  socklen_t size = FillLoopback(family, address);
  // Bound without SO_REUSEADDR, so that the system picks a port that nobody has; set afterwards,
  // so that the server may have it.
  const int on = 1;
  if (bind(socket.get(), &address.any, size) != 0 ||
      setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      getsockname(socket.get(), &address.any, &size) != 0) {
    return errno;
  }
  const int port = ntohs(family == AF_INET ? address.four.sin_port : address.six.sin6_port);
  Result<net::Address> made = net::Address::Make(family == AF_INET ? "127.0.0.1" : "::1", port);
  LS_CHECK(made.ok());
  ports.push_back({std::move(socket), std::move(made).value()});
  return 0;
}

}  // namespace

Result<std::vector<HeldPort>> HoldLoopbackPorts(int count) {
  std::vector<HeldPort> ports;
  int family = AF_INET;
  while (static_cast<int>(ports.size()) < count) {
    const int error = HoldPort(family, ports);
    if (error == 0) {
      continue;
    }
    const bool no_ipv4 = error == EADDRNOTAVAIL || error == EAFNOSUPPORT;
    if (family == AF_INET && ports.empty() && no_ipv4) {
      family = AF_INET6;
      continue;
    }
    const Status status = ErrnoStatus(error, "loopback", "hold a port");
    return ResourceExhausted(
        fmt::format("port {} of {}: {}", ports.size() + 1, count, status.message()));
  }
  return ports;
}

}  // namespace lockstep::cluster
