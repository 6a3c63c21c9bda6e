#include "lockstep/net/address.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace lockstep::net {
namespace {

std::string Canonical(std::string_view text, PortZero zero = PortZero::kRefused) {
  const Result<Address> address = Address::Parse(text, zero);
  return address.ok() ? address->ToString() : "error";
}

std::string Message(std::string_view text) {
  const Result<Address> address = Address::Parse(text);
  EXPECT_FALSE(address.ok()) << text;
  if (address.ok()) {
    return {};
  }
  EXPECT_EQ(address.status().code(), StatusCode::kInvalidArgument);
  return address.status().message();
}

TEST(AddressTest, CanonicalForms) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"localhost:2222", "localhost:2222"},
      {"Node3.Example.COM:1", "node3.example.com:1"},
      {"dist-mnist-worker-0.kubeflow.svc:2222", "dist-mnist-worker-0.kubeflow.svc:2222"},
      {"trainer_worker_1:65535", "trainer_worker_1:65535"},
      {"10.0.0.1:2222", "10.0.0.1:2222"},
      {"255.255.255.255:9", "255.255.255.255:9"},
      {"1a:80", "1a:80"},
      {"3com.net:80", "3com.net:80"},
      {"[::1]:2222", "[::1]:2222"},
      {"[0:0:0:0:0:0:0:1]:2222", "[::1]:2222"},
      {"[2001:DB8:0::0001]:443", "[2001:db8::1]:443"},
      {"[::ffff:10.0.0.1]:443", "[::ffff:10.0.0.1]:443"},
      {"[fe80::1%eth0]:443", "[fe80::1%eth0]:443"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_EQ(Canonical(text), expected) << text;
    EXPECT_EQ(Canonical(expected), expected);
  }
}

TEST(AddressTest, Parts) {
  const Address name = Address::Parse("a.b:7").value();
  EXPECT_EQ(name.kind(), Address::Kind::kName);
  EXPECT_EQ(name.host(), "a.b");
  EXPECT_EQ(name.port(), 7);
  EXPECT_EQ(Address::Parse("1.2.3.4:7")->kind(), Address::Kind::kIpv4);
  const Address six = Address::Parse("[::1]:7").value();
  EXPECT_EQ(six.kind(), Address::Kind::kIpv6);
  EXPECT_EQ(six.host(), "::1");
  EXPECT_EQ(six.WithPort(8).ToString(), "[::1]:8");
  EXPECT_EQ(Address::Make("::1", 7)->ToString(), "[::1]:7");
  EXPECT_EQ(Address::Make("[::1]", 7)->ToString(), "[::1]:7");
  EXPECT_EQ(Address::Make("host", 7)->ToString(), "host:7");
  EXPECT_FALSE(Address::Make("host:6", 7).ok());
  EXPECT_FALSE(Address::Make("host", -1).ok());
  EXPECT_FALSE(Address::Make("", 7).ok());
}

TEST(AddressTest, EveryFaultIsNamed) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "address '': the address is empty"},
      {"host", "address 'host': the port is missing; expected host:port"},
      {"host:", "the port is missing"},
      {":2222", "the host is empty"},
      {"grpc://host:2222", "an address has no scheme; leave 'grpc://' out"},
      {"http://host", "an address has no scheme; leave 'http://' out"},
      {"host:2222/", "an address has no path"},
      {"joe@host:2222", "an address has no user"},
      {"a:1,b:2", "it has a comma"},
      {" host:2222", "it has spaces"},
      {"host:2222 ", "it has spaces"},
      {"host: 2222", "it has spaces"},
      {"host:2222\n", "it has control characters"},
      {"host:0", "the port 0 is not allowed here"},
      {"host:00", "the port '00' has leading zeros"},
      {"host:02222", "the port '02222' has leading zeros"},
      {"host:65536", "the port '65536' is greater than 65535"},
      {"host:99999999999999999999", "is greater than 65535"},
      {"host:-1", "the port '-1' is no number"},
      {"host:+1", "the port '+1' is no number"},
      {"host:0x10", "the port '0x10' is no number"},
      {"host:22a", "the port '22a' is no number"},
      {"host:http", "the port 'http' is no number"},
      {"host.:2222", "the host ends with a dot"},
      {".host:2222", "an empty part between dots"},
      {"a..b:2222", "an empty part between dots"},
      {"-a:2222", "begins or ends with '-'"},
      {"a-.b:2222", "begins or ends with '-'"},
      {"a$b:2222", "the host name has the character '$'"},
      {"h\xc3\xb6st:2222", "the host name has the character"},
      {"::1:2222", "an IPv6 address needs brackets"},
      {"2001:db8::1", "an IPv6 address needs brackets"},
      {"fe80::1%eth0:2222", "an IPv6 address needs brackets"},
      {"a:b:2222", "more than one ':'"},
      {"host:1:2", "more than one ':'"},
      {"[::1:2222", "the closing ']' is missing"},
      {"[::1]", "the port is missing"},
      {"[::1]2222", "'2222' follows the closing ']'"},
      {"[::1]:", "the port is missing"},
      {"[]:2222", "'' is no IPv6 address"},
      {"[::g]:2222", "'::g' is no IPv6 address"},
      {"[1:2:3]:2222", "is no IPv6 address"},
      {"[host]:2222", "'host' is no IPv6 address"},
      {"[10.0.0.1]:2222", "'10.0.0.1' is no IPv6 address"},
      {"[fe80::1%]:2222", "the zone '' is no interface name"},
      {"[fe80::1%a;b]:2222", "the zone 'a;b' is no interface name"},
      {"256.0.0.1:2222", "looks like an IPv4 address and is none"},
      {"10.0.1:2222", "looks like an IPv4 address and is none"},
      {"10.0.0.01:2222", "looks like an IPv4 address and is none"},
      {"10.0.0.1.1:2222", "looks like an IPv4 address and is none"},
      {"2130706433:2222", "looks like an IPv4 address and is none"},
      {"0x7f000001:2222", "looks like an IPv4 address and is none"},
      {"1.2.3.4.:2222", "the host ends with a dot"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_NE(Message(text).find(expected), std::string::npos) << text << ": " << Message(text);
  }
}

TEST(AddressTest, LongAndOddBytes) {
  const std::string label(63, 'a');
  EXPECT_NE(Canonical(label + ":1"), "error");
  EXPECT_EQ(Canonical(label + "a:1"), "error");
  const std::string longest = label + "." + label + "." + label + "." + std::string(61, 'b');
  EXPECT_NE(Canonical(longest + ":1"), "error");
  EXPECT_EQ(Canonical(longest + "b:1"), "error");
  EXPECT_LT(Message(std::string(1 << 20, 'x') + ":1").size(), 500U);
  EXPECT_EQ(Canonical(std::string_view("a\0b:1", 5)), "error");
  EXPECT_EQ(Canonical(std::string_view("[::1\0]:1", 8)), "error");
  EXPECT_EQ(Canonical("a\x7f:1"), "error");
}

TEST(AddressTest, PortZeroWhereAllowed) {
  EXPECT_EQ(Canonical("localhost:0", PortZero::kAllowed), "localhost:0");
  EXPECT_EQ(Canonical("localhost:00", PortZero::kAllowed), "error");
}

TEST(AddressTest, LoopbackAndUnspecified) {
  for (const char* text : {"127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1",
                           "localhost:1", "LOCALHOST:1", "a.localhost:1"}) {
    EXPECT_TRUE(Address::Parse(text)->loopback()) << text;
  }
  for (const char* text : {"128.0.0.1:1", "12.7.0.1:1", "[::2]:1", "[::]:1", "0.0.0.0:1",
                           "localhost.example.com:1", "notlocalhost:1"}) {
    EXPECT_FALSE(Address::Parse(text)->loopback()) << text;
  }
  EXPECT_TRUE(Address::Parse("0.0.0.0:1")->unspecified());
  EXPECT_TRUE(Address::Parse("[0::0]:1")->unspecified());
  EXPECT_FALSE(Address::Parse("[::1]:1")->unspecified());
}

TEST(AddressTest, OrderAndEquality) {
  const auto at = [](const char* text) { return Address::Parse(text).value(); };
  EXPECT_EQ(at("A:1"), at("a:1"));
  EXPECT_EQ(at("[0::1]:1"), at("[::1]:1"));
  EXPECT_NE(at("a:1"), at("a:2"));
  EXPECT_LT(at("a:2"), at("a:10"));
  EXPECT_LT(at("a:10"), at("b:1"));
}

TEST(AddressTest, AsIpv4) {
  const auto plain = [](const std::string& text) {
    return Address::Parse(text).value().AsIpv4().ToString();
  };
  EXPECT_EQ(plain("[::ffff:10.0.0.1]:1"), "10.0.0.1:1");
  EXPECT_EQ(plain("[::ffff:a00:1]:1"), "10.0.0.1:1");
  EXPECT_EQ(Address::Parse("[::ffff:10.0.0.1]:1").value().AsIpv4(),
            Address::Parse("10.0.0.1:1").value());
  for (const std::string other : {"10.0.0.1:1", "[::1]:1", "[fe80::ffff:1]:1", "a:1"}) {
    EXPECT_EQ(plain(other), other);
  }
}

}  // namespace
}  // namespace lockstep::net
