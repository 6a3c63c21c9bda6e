#include "lockstep/cluster/security/credentials.h"

#include <gtest/gtest.h>

namespace lockstep::cluster {
namespace {

const CredentialNames kNames = {"ca.crt", "task.crt", "task.key"};

class CredentialsTest : public ::testing::Test {
 protected:
  SecurityOptions Issued(const CertificateAndKey& authority, const std::string& host = "a") const {
    const CertificateAndKey task = IssueCertificate(authority, {"task", {host}}).value();
    return {.job_secret = "s",
            .ca_certificates = authority.certificate,
            .certificate = task.certificate,
            .private_key = task.key};
  }

  static std::string Refusal(const SecurityOptions& options) {
    const Status status = CheckCredentials(options, kNames);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
    return status.message();
  }

  const CertificateAndKey one_ = MakeAuthority({}).value();
  const CertificateAndKey other_ = MakeAuthority({}).value();
};

TEST_F(CredentialsTest, WhatBelongsTogether) {
  EXPECT_TRUE(CheckCredentials({}, kNames).ok());
  SecurityOptions options = Issued(one_);
  EXPECT_TRUE(CheckCredentials(options, kNames).ok());
  // Two authorities in one file: one job moves from the first to the second.
  options.ca_certificates = other_.certificate + one_.certificate;
  EXPECT_TRUE(CheckCredentials(options, kNames).ok());
}

TEST_F(CredentialsTest, EachTextIsNamed) {
  const SecurityOptions good = Issued(one_);
  SecurityOptions options = good;
  options.ca_certificates = "junk";
  EXPECT_EQ(Refusal(options), "ca.crt: this is no certificate in PEM");
  options = good;
  options.certificate = good.private_key;
  EXPECT_EQ(Refusal(options), "task.crt: this is no certificate in PEM");
  options = good;
  options.private_key = good.certificate;
  EXPECT_EQ(Refusal(options), "task.key: this is no private key in PEM without a password");
  options = good;
  options.private_key = Issued(one_).private_key;
  EXPECT_EQ(Refusal(options), "task.key is not the key of task.crt");
  options = good;
  options.private_key.clear();
  EXPECT_NE(Refusal(options).find("missing here: private key"), std::string::npos);
}

TEST_F(CredentialsTest, OfAnotherAuthority) {
  SecurityOptions options = Issued(one_);
  options.ca_certificates = other_.certificate;
  EXPECT_EQ(Refusal(options),
            "task.crt would be refused by every other task: it is not of the authority in ca.crt");
}

TEST_F(CredentialsTest, AnAuthorityIsNoTask) {
  SecurityOptions options = Issued(one_);
  options.certificate = one_.certificate;
  options.private_key = one_.key;
  EXPECT_NE(Refusal(options).find("task.crt would be refused"), std::string::npos);
}

TEST_F(CredentialsTest, TheHostMustBeInIt) {
  const auto at = [](const std::string& address) { return net::Address::Parse(address).value(); };
  EXPECT_TRUE(CheckCertifiedHost({}, at("b:1")).ok());
  EXPECT_TRUE(CheckCertifiedHost(Issued(one_, "a"), at("a:1")).ok());
  EXPECT_TRUE(CheckCertifiedHost(Issued(one_, "10.0.0.1"), at("10.0.0.1:1")).ok());
  EXPECT_TRUE(CheckCertifiedHost(Issued(one_, "fe80::1"), at("[fe80::1%eth0]:1")).ok());
  const Status status = CheckCertifiedHost(Issued(one_, "a"), at("10.0.0.1:1"));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("for DNS:a, not for 10.0.0.1"), std::string::npos)
      << status.message();
}

TEST_F(CredentialsTest, Pairs) {
  EXPECT_TRUE(CheckPair(one_, kNames).ok());
  EXPECT_EQ(CheckPair({one_.certificate, other_.key}, kNames).message(),
            "task.key is not the key of task.crt");
}

}  // namespace
}  // namespace lockstep::cluster
