// Address: where a task listens, "host:port", parsed strictly. The host is a DNS name, an IPv4
// address, or an IPv6 address in brackets ("[::1]:2222", with a zone if need be: "[fe80::1%eth0]").
//
//   LS_ASSIGN_OR_RETURN(const net::Address address, net::Address::Parse("node3:2222"));
//
// Equal addresses have equal text: names are lower-case, IPv6 addresses in their shortest form
// (RFC 5952). A name is not resolved: two names of one host are different addresses.
// Errors: INVALID_ARGUMENT that quotes the text and says what is wrong with it.
#pragma once

#include <compare>
#include <string>
#include <string_view>

#include "lockstep/base/result.h"

namespace lockstep::net {

// Port 0 means "any free port", and has a meaning only where somebody binds it.
enum class PortZero { kRefused, kAllowed };

class Address {
 public:
  enum class Kind { kName, kIpv4, kIpv6 };

  static Result<Address> Parse(std::string_view text, PortZero zero = PortZero::kRefused);

  // The same from its parts; an IPv6 host has no brackets here.
  static Result<Address> Make(std::string_view host, int port, PortZero zero = PortZero::kRefused);

  Kind kind() const { return kind_; }

  // Without brackets: what getaddrinfo takes.
  const std::string& host() const { return host_; }

  int port() const { return port_; }

  Address WithPort(int port) const;

  // 0.0.0.0 or [::]: every interface, no host.
  bool unspecified() const;

  // The IPv4 address that an IPv6 address stands for (::ffff:10.0.0.1), else itself: both reach the
  // same socket.
  Address AsIpv4() const;

  // 127.0.0.0/8, ::1 (and the first inside the second, ::ffff:127.0.0.1), "localhost" and names
  // that end in ".localhost". Another name may still resolve to a loopback address.
  bool loopback() const;

  // "host:port", with the brackets of IPv6.
  std::string ToString() const;

  friend bool operator==(const Address&, const Address&) = default;

  // By host, then port.
  friend std::strong_ordering operator<=>(const Address& a, const Address& b) {
    const int order = a.host_.compare(b.host_);
    return order != 0 ? order <=> 0 : a.port_ <=> b.port_;
  }

 private:
  Address(Kind kind, std::string host, int port)
      : kind_(kind), host_(std::move(host)), port_(port) {}

  Kind kind_;
  std::string host_;
  int port_;
};

}  // namespace lockstep::net
