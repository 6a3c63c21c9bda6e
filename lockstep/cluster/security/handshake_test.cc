// Who refuses whom, against the server that tasks have.
#include "lockstep/cluster/security/handshake.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "lockstep/base/descriptor.h"
#include "lockstep/cluster/internal/rpc_channel.h"
#include "lockstep/cluster/internal/rpc_server.h"
#include "lockstep/cluster/security/certificates.h"
#include "lockstep/cluster/testing/local_cluster.h"

namespace lockstep::cluster {
namespace {

using std::chrono::milliseconds;

class HandshakeTest : public ::testing::Test {
 protected:
  SecurityOptions Certified(const CertificateAndKey& authority, const std::string& host) const {
    const CertificateAndKey task = IssueCertificate(authority, {"task", {host}}).value();
    return {.ca_certificates = authority.certificate,
            .certificate = task.certificate,
            .private_key = task.key};
  }

  void Serve(const SecurityOptions& security) {
    server_ = internal::RpcServer::Start(
                  {.address = net::Address::Parse("127.0.0.1:0", net::PortZero::kAllowed).value(),
                   .security = security})
                  .value();
  }

  Status Try(const SecurityOptions& security) const {
    return TryHandshake(net::Address::Make("127.0.0.1", server_->port()).value(), security,
                        Deadline::After(milliseconds(20'000)));
  }

  void ExpectRefused(const SecurityOptions& security, const std::string& why) const {
    const Status status = Try(security);
    EXPECT_EQ(status.code(), StatusCode::kUnauthenticated) << status.ToString();
    EXPECT_NE(status.message().find(why), std::string::npos) << status.ToString();
  }

  const CertificateAndKey authority_ = MakeAuthority({}).value();
  const CertificateAndKey other_ = MakeAuthority({}).value();
  std::unique_ptr<internal::RpcServer> server_;
};

TEST_F(HandshakeTest, WithTls) {
  Serve(Certified(authority_, "127.0.0.1"));
  const Status status = Try(Certified(authority_, "b"));
  EXPECT_TRUE(status.ok()) << status.ToString();
  ExpectRefused({}, "TLS is spoken there, and this task has no certificates");
  // It trusts the server, and the server does not trust it; and the other way round.
  SecurityOptions stranger = Certified(other_, "127.0.0.1");
  ExpectRefused(stranger, "the certificate shown there is not accepted here");
  stranger.ca_certificates = authority_.certificate;
  ExpectRefused(stranger, "refused there");
}

TEST_F(HandshakeTest, TheHostMustBeInTheCertificate) {
  Serve(Certified(authority_, "10.0.0.1"));
  ExpectRefused(Certified(authority_, "127.0.0.1"), "IP address mismatch");
}

TEST_F(HandshakeTest, WithoutTls) {
  Serve({});
  EXPECT_TRUE(Try({}).ok());
  ExpectRefused(Certified(authority_, "127.0.0.1"), "TLS is not spoken there");
}

TEST_F(HandshakeTest, NobodyThereIsNoRefusal) {
  const net::Address address = net::Address::Make("127.0.0.1", FreePorts(1)[0]).value();
  for (const SecurityOptions& security : {SecurityOptions(), Certified(authority_, "127.0.0.1")}) {
    EXPECT_EQ(TryHandshake(address, security, Deadline::After(milliseconds(20'000))).code(),
              StatusCode::kUnavailable);
  }
}

TEST_F(HandshakeTest, SilenceIsNoRefusal) {
  const int port = FreePorts(1)[0];
  const lockstep::internal::Descriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  EXPECT_EQ(TryHandshake(net::Address::Make("127.0.0.1", port).value(),
                         Certified(authority_, "127.0.0.1"), Deadline::After(milliseconds(100)))
                .code(),
            StatusCode::kUnavailable);
}

TEST_F(HandshakeTest, ACallThatWaitsEndsWithTheReason) {
  Serve(Certified(authority_, "127.0.0.1"));
  const auto channel = internal::RpcChannel::Create(
                           {.address = net::Address::Make("127.0.0.1", server_->port()).value(),
                            .peer = "/job:ps/task:0"})
                           .value();
  const Status status =
      channel
          ->Call("/test/None", "",
                 {.deadline = Deadline::After(std::chrono::minutes(10)), .wait_for_ready = true})
          .status();
  EXPECT_EQ(status.code(), StatusCode::kUnauthenticated) << status.ToString();
  EXPECT_EQ(status.message().find("/job:ps/task:0 (127.0.0.1:"), 0U) << status.ToString();
  EXPECT_NE(status.message().find("TLS is spoken there"), std::string::npos) << status.ToString();
}

}  // namespace
}  // namespace lockstep::cluster
