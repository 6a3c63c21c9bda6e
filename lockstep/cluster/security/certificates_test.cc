#include "lockstep/cluster/security/certificates.h"

#include <gtest/gtest.h>

namespace lockstep::cluster {
namespace {

std::string Message(const Result<CertificateAndKey>& files) {
  return files.ok() ? "ok" : files.status().message();
}

// What is in them beyond this, and that they verify, is tested with the tool `openssl` in
// tests/cli/certs_test.py.
TEST(CertificatesTest, AnAuthorityAndWhatItSigns) {
  const CertificateAndKey authority = MakeAuthority({.name = "The job's CA"}).value();
  const CertificateInfo info = DescribeCertificate(authority.certificate).value();
  EXPECT_EQ(info.name, "The job's CA");
  EXPECT_EQ(info.issuer, "The job's CA");
  const CertificateAndKey leaf =
      IssueCertificate(authority,
                       {.name = "node", .hosts = {"Node1", "10.0.0.1", "::1", "[::1]", "node1"}})
          .value();
  const CertificateInfo leaf_info = DescribeCertificate(leaf.certificate).value();
  EXPECT_EQ(leaf_info.name, "node");
  EXPECT_EQ(leaf_info.issuer, "The job's CA");
  EXPECT_EQ(leaf_info.hosts, "DNS:node1, IP Address:10.0.0.1, IP Address:0:0:0:0:0:0:0:1");
  EXPECT_NE(leaf.key, IssueCertificate(authority, {.name = "n", .hosts = {"a"}})->key);
}

TEST(CertificatesTest, Options) {
  const CertificateAndKey authority = MakeAuthority({}).value();
  EXPECT_NE(Message(MakeAuthority({.name = ""})).find("the name ''"), std::string::npos);
  EXPECT_NE(Message(MakeAuthority({.name = std::string(65, 'a')})).find("1 to 64 bytes"),
            std::string::npos);
  EXPECT_NE(Message(MakeAuthority({.name = "a\nb"})).find("'a\\nb'"), std::string::npos);
  EXPECT_NE(Message(MakeAuthority({.days = 0})).find("0 days"), std::string::npos);
  EXPECT_NE(Message(MakeAuthority({.days = kMaxCertificateDays + 1})).find("days: allowed are 1"),
            std::string::npos);
  const auto with_host = [&](const std::string& host) {
    return Message(IssueCertificate(authority, {.name = "a", .hosts = {host}}));
  };
  for (const char* host : {"", "a:1", "a b", "a,DNS:b", "*.example.com", "0.0.0.0",
                           "::", "fe80::1%eth0", "10.0.0", "a\n"}) {
    EXPECT_NE(with_host(host).find("expected a host name"), std::string::npos) << host;
  }
  EXPECT_NE(Message(IssueCertificate(authority, {.name = "a"})).find("for 0 hosts"),
            std::string::npos);
}

TEST(CertificatesTest, AuthoritiesThatCannotSign) {
  const CertificateAndKey authority = MakeAuthority({.days = 10}).value();
  const CertificateAndKey other = MakeAuthority({}).value();
  const CertificateOptions options = {.name = "a", .hosts = {"a"}, .days = 5};
  const CertificateAndKey leaf = IssueCertificate(authority, options).value();
  EXPECT_NE(Message(IssueCertificate(leaf, options)).find("is not one of an authority"),
            std::string::npos);
  EXPECT_NE(Message(IssueCertificate({authority.certificate, other.key}, options))
                .find("do not belong together"),
            std::string::npos);
  EXPECT_NE(Message(IssueCertificate(authority, {.name = "a", .hosts = {"a"}, .days = 11}))
                .find("longer than its authority"),
            std::string::npos);
  EXPECT_EQ(Message(IssueCertificate({"", authority.key}, options)),
            "this is no certificate in PEM");
  EXPECT_EQ(Message(IssueCertificate({authority.key, authority.key}, options)),
            "this is no certificate in PEM");
  EXPECT_EQ(Message(IssueCertificate({authority.certificate, "x"}, options)),
            "this is no private key in PEM without a password");
  EXPECT_FALSE(DescribeCertificate("x").ok());
}

}  // namespace
}  // namespace lockstep::cluster
