#include "lockstep/net/address.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "lockstep/base/macros.h"
#include "lockstep/base/quote.h"

namespace lockstep::net {
namespace {

constexpr size_t kMaxName = 253;
constexpr size_t kMaxLabel = 63;
constexpr int kMaxPort = 65535;
constexpr std::string_view kForms =
    "expected host:port, where host is a name, an IPv4 address or an IPv6 address in brackets";

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool AllDigits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), IsDigit);
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return lower;
}

// What is wrong with a port, or nothing.
std::string PortFault(std::string_view text, PortZero zero, int& port) {
  if (text.empty()) {
    return "the port is missing";
  }
  if (!AllDigits(text)) {
    return fmt::format("the port {} is no number", Quoted(text));
  }
  if (text.size() > 1 && text[0] == '0') {
    return fmt::format("the port {} has leading zeros", Quoted(text));
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || port > kMaxPort) {
    return fmt::format("the port {} is greater than {}", Quoted(text), kMaxPort);
  }
  if (port == 0 && zero == PortZero::kRefused) {
    return "the port 0 is not allowed here: it names no port, allowed are 1 to 65535";
  }
  return {};
}

// Dotted decimal with four parts of 0..255 and nothing else: inet_aton's other forms (octal, hex,
// fewer parts) mean different addresses to different programs.
bool IsIpv4(std::string_view text) {
  int parts = 0;
  while (true) {
    const size_t dot = text.find('.');
    const std::string_view part = text.substr(0, dot);
    if (!AllDigits(part) || part.size() > 3 || (part.size() > 1 && part[0] == '0') ||
        (part.size() == 3 && part > "255")) {
      return false;
    }
    ++parts;
    if (dot == std::string_view::npos) {
      return parts == 4;
    }
    text.remove_prefix(dot + 1);
  }
}

// Would a resolver take a name that ends in this label for a number?
bool IsNumberLike(std::string_view label) {
  if (AllDigits(label)) {
    return true;
  }
  return label.size() >= 2 && label[0] == '0' && (label[1] == 'x' || label[1] == 'X') &&
         std::all_of(label.begin() + 2, label.end(), [](char c) {
           return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
         });
}

std::string LabelFault(std::string_view label) {
  if (label.empty()) {
    return "the host name has an empty part between dots";
  }
  if (label.size() > kMaxLabel) {
    return fmt::format("a part of the host name has {} characters, at most {} are allowed",
                       label.size(), kMaxLabel);
  }
  for (const char c : label) {
    if (!IsLetter(c) && !IsDigit(c) && c != '-' && c != '_') {
      return fmt::format(
          "the host name has the character {}; allowed are letters, digits, '-', "
          "'_' and '.'",
          Quoted(std::string_view(&c, 1)));
    }
  }
  if (label.front() == '-' || label.back() == '-') {
    return fmt::format("the part {} of the host name begins or ends with '-'", Quoted(label));
  }
  return {};
}

// What is wrong with a DNS name, or nothing.
std::string NameFault(std::string_view name) {
  if (name.size() > kMaxName) {
    return fmt::format("the host name has {} characters, at most {} are allowed", name.size(),
                       kMaxName);
  }
  if (name.back() == '.') {
    return "the host ends with a dot";
  }
  std::string_view rest = name;
  std::string_view label;
  for (size_t dot = 0; dot != std::string_view::npos;) {
    dot = rest.find('.');
    label = rest.substr(0, dot);
    if (std::string fault = LabelFault(label); !fault.empty()) {
      return fault;
    }
    if (dot != std::string_view::npos) {
      rest.remove_prefix(dot + 1);
    }
  }
  if (IsNumberLike(label)) {
    return fmt::format(
        "the host {} looks like an IPv4 address and is none: four numbers of 0 to "
        "255 without leading zeros are",
        Quoted(name));
  }
  return {};
}

// What is wrong with an IPv6 address (with or without zone), or nothing and its canonical text.
std::string Ipv6Fault(std::string_view text, std::string& canonical) {
  const size_t percent = text.find('%');
  const std::string number(text.substr(0, percent));
  in6_addr bytes{};
  if (number.find('\0') != std::string::npos || inet_pton(AF_INET6, number.c_str(), &bytes) != 1) {
    return fmt::format("{} is no IPv6 address", Quoted(number));
  }
  std::array<char, INET6_ADDRSTRLEN> buffer{};
  canonical = inet_ntop(AF_INET6, &bytes, buffer.data(), buffer.size());
  if (percent == std::string_view::npos) {
    return {};
  }
  constexpr size_t kMaxZone = 15;
  const std::string_view zone = text.substr(percent + 1);
  const bool good =
      !zone.empty() && zone.size() <= kMaxZone && std::all_of(zone.begin(), zone.end(), [](char c) {
        return IsLetter(c) || IsDigit(c) || c == '-' || c == '_' || c == '.';
      });
  if (!good) {
    return fmt::format("the zone {} is no interface name", Quoted(zone));
  }
  canonical += fmt::format("%{}", zone);
  return {};
}

struct HostParts {
  Address::Kind kind = Address::Kind::kName;
  std::string host;
};

// What is wrong with a host that stands without brackets, or nothing and its parts.
std::string HostFault(std::string_view host, HostParts& parts) {
  if (host.empty()) {
    return "the host is empty";
  }
  if (IsIpv4(host)) {
    parts = {Address::Kind::kIpv4, std::string(host)};
    return {};
  }
  if (std::string fault = NameFault(host); !fault.empty()) {
    return fault;
  }
  parts = {Address::Kind::kName, Lower(host)};
  return {};
}

// Faults of the whole text that later messages would only describe in a roundabout way.
std::string TextFault(std::string_view text) {
  if (text.empty()) {
    return "the address is empty";
  }
  if (HasControlCharacters(text)) {
    return "it has control characters";
  }
  if (text.find(' ') != std::string_view::npos) {
    return "it has spaces";
  }
  if (const size_t scheme = text.find("://"); scheme != std::string_view::npos) {
    return fmt::format("an address has no scheme; leave {} out",
                       Quoted(text.substr(0, scheme + 3)));
  }
  if (text.find('/') != std::string_view::npos) {
    return "an address has no path; leave out what begins with '/'";
  }
  if (text.find('@') != std::string_view::npos) {
    return "an address has no user; leave out what ends with '@'";
  }
  if (text.find(',') != std::string_view::npos) {
    return "it has a comma: one address is expected here, not a list";
  }
  return {};
}

std::string BracketFault(std::string_view text, std::string_view& port, HostParts& parts) {
  const size_t close = text.find(']');
  if (close == std::string_view::npos) {
    return "the closing ']' is missing";
  }
  const std::string_view inside = text.substr(1, close - 1);
  const std::string_view rest = text.substr(close + 1);
  parts.kind = Address::Kind::kIpv6;
  if (std::string fault = Ipv6Fault(inside, parts.host); !fault.empty()) {
    return fault;
  }
  if (!rest.empty() && rest[0] != ':') {
    return fmt::format("{} follows the closing ']', ':port' is expected there", Quoted(rest));
  }
  port = rest.empty() ? rest : rest.substr(1);
  return {};
}

std::string PlainFault(std::string_view text, std::string_view& port, HostParts& parts) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) {
    std::string fault = HostFault(text, parts);
    return fault.empty() ? "the port is missing" : fault;
  }
  if (text.find(':', colon + 1) != std::string_view::npos) {
    std::string canonical;
    const size_t last = text.rfind(':');
    if (Ipv6Fault(text, canonical).empty() || Ipv6Fault(text.substr(0, last), canonical).empty()) {
      return "an IPv6 address needs brackets: [ADDRESS]:port";
    }
    return "it has more than one ':'";
  }
  port = text.substr(colon + 1);
  return HostFault(text.substr(0, colon), parts);
}

}  // namespace

Result<Address> Address::Parse(std::string_view text, PortZero zero) {
  HostParts parts;
  std::string_view port_text;
  int port = 0;
  std::string fault = TextFault(text);
  if (fault.empty()) {
    fault =
        text[0] == '[' ? BracketFault(text, port_text, parts) : PlainFault(text, port_text, parts);
  }
  if (fault.empty()) {
    fault = PortFault(port_text, zero, port);
  }
  if (!fault.empty()) {
    return InvalidArgument(fmt::format("address {}: {}; {}", Quoted(text), fault, kForms));
  }
  return Address(parts.kind, std::move(parts.host), port);
}

Result<Address> Address::Make(std::string_view host, int port, PortZero zero) {
  const bool bare_ipv6 = host.find(':') != std::string_view::npos && !host.starts_with('[');
  return Parse(bare_ipv6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port),
               zero);
}

Address Address::WithPort(int port) const {
  LS_CHECK(port >= 0 && port <= kMaxPort);
  Address other = *this;
  other.port_ = port;
  return other;
}

bool Address::unspecified() const {
  return (kind_ == Kind::kIpv4 && host_ == "0.0.0.0") || (kind_ == Kind::kIpv6 && host_ == "::");
}

Address Address::AsIpv4() const {
  constexpr std::string_view kMapped = "::ffff:";
  const std::string_view host = host_;
  if (kind_ == Kind::kIpv6 && host.starts_with(kMapped) && host.find('.') != host.npos &&
      host.find('%') == host.npos) {
    return {Kind::kIpv4, std::string(host.substr(kMapped.size())), port_};
  }
  return *this;
}

bool Address::loopback() const {
  const std::string_view host = host_;
  switch (kind_) {
    case Kind::kIpv4:
      return host.starts_with("127.");
    case Kind::kIpv6:
      return host == "::1" || host.starts_with("::ffff:127.");
    case Kind::kName:
      return host == "localhost" || host.ends_with(".localhost");
  }
  return false;
}

std::string Address::ToString() const {
  return kind_ == Kind::kIpv6 ? fmt::format("[{}]:{}", host_, port_)
                              : fmt::format("{}:{}", host_, port_);
}

}  // namespace lockstep::net
