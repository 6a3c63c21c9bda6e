#include "lockstep/net/listen_point.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/file.h"

namespace lockstep::net {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Result<AddressList> Lookup(const std::string& host, int port, bool numeric,
                           const std::string& shown) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV | (numeric ? AI_NUMERICHOST : 0);
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) {
    return InvalidArgument(
        fmt::format("{}: the host cannot be resolved: {}", shown, gai_strerror(error)));
  }
  return AddressList(found, &freeaddrinfo);
}

bool IsLoopback(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    return (ntohl(v4->sin_addr.s_addr) >> 24) == 127;
  }
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
  return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) ||
         (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr) && v6->sin6_addr.s6_addr[12] == 127);
}

Status BindError(const Address& address, const std::string& where, int error) {
  const std::string shown =
      address.ToString() == where ? where : fmt::format("{} ({})", address.ToString(), where);
  switch (error) {
    case EADDRINUSE:
      return AlreadyExists(fmt::format("{}: the port is in use by another process", shown));
    case EADDRNOTAVAIL:
      return FailedPrecondition(fmt::format(
          "{}: this is no address of this machine, so the task cannot listen there", shown));
    default:
      return ErrnoStatus(error, shown, "listen");
  }
}

}  // namespace

std::string ListenPoint::WithPort(int port) const {
  return ipv6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

Result<std::vector<ListenPoint>> ResolveHost(const Address& address) {
  LS_ASSIGN_OR_RETURN(const AddressList list,
                      Lookup(address.host(), address.port(), address.kind() != Address::Kind::kName,
                             address.ToString()));
  std::vector<ListenPoint> points;
  for (const addrinfo* at = list.get(); at != nullptr; at = at->ai_next) {
    char host[NI_MAXHOST];
    if ((at->ai_family != AF_INET && at->ai_family != AF_INET6) ||
        getnameinfo(at->ai_addr, at->ai_addrlen, host, sizeof(host), nullptr, 0, NI_NUMERICHOST) !=
            0) {
      continue;
    }
    const bool known = std::any_of(points.begin(), points.end(),
                                   [&](const ListenPoint& point) { return point.host == host; });
    if (!known) {
      points.push_back({host, at->ai_family == AF_INET6, IsLoopback(at->ai_addr)});
    }
  }
  if (points.empty()) {
    return InvalidArgument(
        fmt::format("{}: the host has neither an IPv4 nor an IPv6 address", address.ToString()));
  }
  return points;
}

Result<int> TryListen(const Address& address, const ListenPoint& point, int port) {
  const std::string where = point.WithPort(port);
  LS_ASSIGN_OR_RETURN(const AddressList list, Lookup(point.host, port, true, where));
  const lockstep::internal::Descriptor socket_fd(
      socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (socket_fd.get() < 0) {
    return ErrnoStatus(errno, where, "open a socket");
  }
  const int on = 1;
  // As the server itself will: a port whose last connections still linger is free.
  setsockopt(socket_fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (list->ai_family == AF_INET6) {
    setsockopt(socket_fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
  }
  if (bind(socket_fd.get(), list->ai_addr, list->ai_addrlen) != 0 ||
      listen(socket_fd.get(), 1) != 0) {
    return BindError(address, where, errno);
  }
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  if (getsockname(socket_fd.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
    return ErrnoStatus(errno, where, "read the port of a socket");
  }
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                                           : reinterpret_cast<sockaddr_in*>(&bound)->sin_port);
}

}  // namespace lockstep::net
