#include "lockstep/net/listen_point.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "lockstep/base/descriptor.h"

namespace lockstep::net {
namespace {

Address At(std::string_view text) {
  return Address::Parse(text, PortZero::kAllowed).value();
}

ListenPoint Point(std::string_view text) {
  return ResolveHost(At(text)).value().front();
}

TEST(ListenPointTest, ResolvesLiterals) {
  const auto v4 = ResolveHost(At("127.0.0.3:80"));
  ASSERT_TRUE(v4.ok());
  ASSERT_EQ(v4->size(), 1U);
  EXPECT_EQ((*v4)[0].WithPort(80), "127.0.0.3:80");
  EXPECT_TRUE((*v4)[0].loopback);
  const auto v6 = ResolveHost(At("[::1]:80"));
  ASSERT_TRUE(v6.ok());
  EXPECT_EQ((*v6)[0].WithPort(80), "[::1]:80");
  EXPECT_TRUE((*v6)[0].loopback);
  EXPECT_FALSE(Point("192.0.2.1:80").loopback);
}

TEST(ListenPointTest, NamesOfLoopback) {
  const auto points = ResolveHost(At("localhost:80"));
  ASSERT_TRUE(points.ok());
  for (const ListenPoint& point : *points) {
    EXPECT_TRUE(point.loopback);
  }
}

TEST(ListenPointTest, UnknownName) {
  const auto points = ResolveHost(At("no-such-host.invalid:80"));
  EXPECT_EQ(points.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(points.status().message().find("no-such-host.invalid:80"), std::string::npos);
}

TEST(ListenPointTest, NotOurs) {
  // TEST-NET-1: nobody has it.
  const auto port = TryListen(At("192.0.2.1:4000"), Point("192.0.2.1:4000"), 4000);
  EXPECT_EQ(port.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(port.status().message().find("192.0.2.1:4000: this is no address of this machine"),
            std::string::npos);
}

TEST(ListenPointTest, InUse) {
  const lockstep::internal::Descriptor other(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(other.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(other.get(), 1), 0);
  ASSERT_EQ(getsockname(other.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const int port = ntohs(address.sin_port);
  const auto tried = TryListen(At("127.0.0.1:1"), Point("127.0.0.1:1"), port);
  EXPECT_EQ(tried.status().code(), StatusCode::kAlreadyExists);
  EXPECT_NE(tried.status().message().find("in use"), std::string::npos);
}

TEST(ListenPointTest, FindsAFreePort) {
  const auto port = TryListen(At("127.0.0.1:0"), Point("127.0.0.1:0"), 0);
  ASSERT_TRUE(port.ok()) << port.status().ToString();
  EXPECT_GT(*port, 0);
}

}  // namespace
}  // namespace lockstep::net
