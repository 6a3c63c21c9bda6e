// gRPC data links with mutual TLS: the suite of all transports, and who does not get through. Here
// and not beside the links, because here certificates are made.
#include <gtest/gtest.h>

#include <thread>

#include "lockstep/cluster/security/certificates.h"
#include "lockstep/net/grpc/grpc_provider.h"
#include "lockstep/net/testing/local_cluster.h"
#include "lockstep/net/waiter.h"

namespace lockstep::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

net::GrpcOptions Member(const CertificateAndKey& authority, const std::string& certified_host) {
  const CertificateAndKey task = IssueCertificate(authority, {"task", {certified_host}}).value();
  net::GrpcOptions options;
  options.ca_certificates = authority.certificate;
  options.certificate = task.certificate;
  options.private_key = task.key;
  return options;
}

std::unique_ptr<net::testing::TestCluster> Tls(int num_tasks) {
  const CertificateAndKey authority = MakeAuthority({}).value();
  return net::testing::MakeLocalCluster(
      num_tasks, {{net::LinkKind::kGrpc, net::GrpcFactory(Member(authority, "127.0.0.1"))}});
}

// One server waits for task 1; several who say that they are it try to join.
class LinkTlsTest : public ::testing::Test {
 protected:
  void Serve(const std::string& certified_host, milliseconds timeout = seconds(20)) {
    server_thread_ = std::jthread([this, certified_host, timeout] {
      server_ = Join(0, Member(authority_, certified_host), "secret", timeout);
    });
  }

  Result<std::unique_ptr<net::Transport>> Join(net::PeerId self, const net::GrpcOptions& options,
                                               const std::string& secret, milliseconds timeout) {
    net::WireUpOptions wire_up;
    wire_up.self = self;
    wire_up.tasks = {"/job:worker/task:0", "/job:worker/task:1"};
    wire_up.incarnation = 100 + static_cast<uint64_t>(self);
    wire_up.job_secret = secret;
    wire_up.links = {{net::LinkKind::kGrpc, net::GrpcFactory(options)}};
    const auto end = exchange_.For(self);
    return net::WireUp(wire_up, *end, Deadline::After(timeout));
  }

  Status Try(const net::GrpcOptions& options, const std::string& secret = "secret") {
    return Join(1, options, secret, milliseconds(700)).status();
  }

  const CertificateAndKey authority_ = MakeAuthority({}).value();
  net::testing::LocalExchange exchange_;
  Result<std::unique_ptr<net::Transport>> server_ = Aborted("not yet");
  std::jthread server_thread_;
};

TEST_F(LinkTlsTest, OnlyMembersJoin) {
  Serve("127.0.0.1");
  const auto refused = [](const Status& status) {
    EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status.ToString();
    EXPECT_NE(status.message().find("did not connect over gRPC: /job:worker/task:0"),
              std::string::npos)
        << status.ToString();
  };
  // Without a certificate.
  refused(Try({}));
  // It trusts the server, and the server does not trust it; and the other way round.
  const CertificateAndKey other = MakeAuthority({}).value();
  net::GrpcOptions stranger = Member(other, "127.0.0.1");
  stranger.ca_certificates = authority_.certificate;
  refused(Try(stranger));
  net::GrpcOptions distrustful = Member(authority_, "127.0.0.1");
  distrustful.ca_certificates = other.certificate;
  refused(Try(distrustful));
  // A certificate alone is not enough.
  const Status other_job = Try(Member(authority_, "127.0.0.1"), "another secret");
  EXPECT_EQ(other_job.code(), StatusCode::kUnauthenticated) << other_job.ToString();
  // The job is unharmed.
  const auto member = Join(1, Member(authority_, "127.0.0.1"), "secret", seconds(20));
  ASSERT_TRUE(member.ok()) << member.status().ToString();
  server_thread_.join();
  ASSERT_TRUE(server_.ok()) << server_.status().ToString();
  const Tensor tensor = Tensor::Scalar<float>(2.5F).value();
  const Deadline deadline = Deadline::After(seconds(20));
  EXPECT_TRUE(net::SendTensor(**member, 0, {.item = 1}, tensor, deadline).ok());
  const Result<Tensor> received = net::RecvTensor(**server_, 1, {.item = 1}, deadline);
  ASSERT_TRUE(received.ok()) << received.status().ToString();
  EXPECT_EQ(received->values<float>()[0], 2.5F);
}

TEST_F(LinkTlsTest, TheServerMustBeTheHostThatIsCalled) {
  Serve("10.0.0.1", seconds(3));
  EXPECT_EQ(Try(Member(authority_, "127.0.0.1")).code(), StatusCode::kDeadlineExceeded);
}

TEST_F(LinkTlsTest, AnUnreadableCertificate) {
  net::GrpcOptions broken = Member(authority_, "127.0.0.1");
  broken.certificate = "no certificate";
  const Status status = Try(broken);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("certificate cannot be read"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::cluster

namespace lockstep::net::testing {
namespace {

INSTANTIATE_TEST_SUITE_P(GrpcTls, TransportConformance,
                         ::testing::Values(Kind{"tls", lockstep::cluster::Tls, 5}), KindName);

}  // namespace
}  // namespace lockstep::net::testing
