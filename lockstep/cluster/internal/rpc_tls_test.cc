// Who gets through mutual TLS, over real connections on loopback.
#include <gtest/gtest.h>

#include "lockstep/cluster/internal/rpc_channel.h"
#include "lockstep/cluster/internal/rpc_server.h"
#include "lockstep/cluster/security/certificates.h"

namespace lockstep::cluster::internal {
namespace {

using std::chrono::milliseconds;

constexpr std::string_view kTlsEcho = "/test/Echo";

SecurityOptions Member(const CertificateAndKey& authority, const std::string& host) {
  const CertificateAndKey task = IssueCertificate(authority, {"task", {host}}).value();
  return {.job_secret = "secret",
          .ca_certificates = authority.certificate,
          .certificate = task.certificate,
          .private_key = task.key};
}

class RpcTlsTest : public ::testing::Test {
 protected:
  void SetUp() override { StartServer("127.0.0.1"); }

  void StartServer(const std::string& certified_host) {
    RpcHandlers handlers;
    handlers.emplace(kTlsEcho, [](RpcRequest request, const std::shared_ptr<RpcReply>& reply) {
      reply->Finish(std::move(request.body));
    });
    auto server = RpcServer::Start(
        {.address = net::Address::Parse("127.0.0.1:0", net::PortZero::kAllowed).value(),
         .security = Member(authority_, certified_host),
         .handlers = std::move(handlers)});
    ASSERT_TRUE(server.ok()) << server.status().ToString();
    server_ = std::move(server).value();
  }

  Status Call(const SecurityOptions& security) const {
    const auto channel =
        RpcChannel::Create({.address = net::Address::Make("127.0.0.1", server_->port()).value(),
                            .peer = "/job:ps/task:0",
                            .security = security})
            .value();
    return channel->Call(kTlsEcho, "x", {.deadline = Deadline::After(milliseconds(20'000))})
        .status();
  }

  const CertificateAndKey authority_ = MakeAuthority({}).value();
  std::unique_ptr<RpcServer> server_;
};

TEST_F(RpcTlsTest, Members) {
  const Status status = Call(Member(authority_, "127.0.0.1"));
  EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST_F(RpcTlsTest, NoCertificate) {
  const Status status = Call({.job_secret = "secret"});
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.ToString();
  EXPECT_TRUE(Call(Member(authority_, "127.0.0.1")).ok());
}

TEST_F(RpcTlsTest, CertificateOfAnotherAuthority) {
  const CertificateAndKey other = MakeAuthority({}).value();
  // It trusts the server, and the server does not trust it.
  SecurityOptions stranger = Member(other, "127.0.0.1");
  stranger.ca_certificates = authority_.certificate;
  EXPECT_EQ(Call(stranger).code(), StatusCode::kUnavailable);
  // And the other way round.
  SecurityOptions distrustful = Member(authority_, "127.0.0.1");
  distrustful.ca_certificates = other.certificate;
  EXPECT_EQ(Call(distrustful).code(), StatusCode::kUnavailable);
  EXPECT_TRUE(Call(Member(authority_, "127.0.0.1")).ok());
}

TEST_F(RpcTlsTest, ACertificateAloneIsNotEnough) {
  SecurityOptions other_job = Member(authority_, "127.0.0.1");
  other_job.job_secret = "other";
  EXPECT_EQ(Call(other_job).code(), StatusCode::kUnauthenticated);
}

TEST_F(RpcTlsTest, TheServerMustBeTheHostThatIsCalled) {
  server_.reset();
  StartServer("10.0.0.1");
  EXPECT_EQ(Call(Member(authority_, "127.0.0.1")).code(), StatusCode::kUnavailable);
}

TEST_F(RpcTlsTest, AnUnreadableCertificate) {
  SecurityOptions broken = Member(authority_, "127.0.0.1");
  broken.certificate = "no certificate";
  const auto server = RpcServer::Start(
      {.address = net::Address::Parse("127.0.0.1:0", net::PortZero::kAllowed).value(),
       .security = broken});
  EXPECT_FALSE(server.ok());
}

}  // namespace
}  // namespace lockstep::cluster::internal
