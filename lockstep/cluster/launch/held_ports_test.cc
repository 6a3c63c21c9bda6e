#include "lockstep/cluster/launch/held_ports.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <set>

namespace lockstep::cluster {
namespace {

using lockstep::internal::Descriptor;

sockaddr_in At(const net::Address& address) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<uint16_t>(address.port()));
  inet_pton(AF_INET, address.host().c_str(), &at.sin_addr);
  return at;
}

bool Bind(const Descriptor& socket, const net::Address& address, bool reuse) {
  const int on = reuse ? 1 : 0;
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const sockaddr_in at = At(address);
  return bind(socket.get(), reinterpret_cast<const sockaddr*>(&at), sizeof(at)) == 0;
}

TEST(HeldPortsTest, PortsAreDifferentAndHeld) {
  const std::vector<HeldPort> ports = HoldLoopbackPorts(20).value();
  std::set<int> numbers;
  for (const HeldPort& port : ports) {
    numbers.insert(port.address.port());
    EXPECT_TRUE(port.address.loopback());
  }
  EXPECT_EQ(numbers.size(), 20U);
  const Descriptor other(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_FALSE(Bind(other, ports[0].address, false));
}

TEST(HeldPortsTest, AServerCanListenOnAHeldPortAndBeReached) {
  const std::vector<HeldPort> ports = HoldLoopbackPorts(1).value();
  const Descriptor server(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_TRUE(Bind(server, ports[0].address, true));
  ASSERT_EQ(listen(server.get(), 1), 0);
  const Descriptor client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in at = At(ports[0].address);
  EXPECT_EQ(connect(client.get(), reinterpret_cast<const sockaddr*>(&at), sizeof(at)), 0);
}

TEST(HeldPortsTest, None) {
  EXPECT_TRUE(HoldLoopbackPorts(0)->empty());
}

}  // namespace
}  // namespace lockstep::cluster
