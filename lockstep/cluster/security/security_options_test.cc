#include "lockstep/cluster/security/security_options.h"

#include <gtest/gtest.h>

namespace lockstep::cluster {
namespace {

SecurityOptions Full() {
  return {.job_secret = "s", .ca_certificates = "a", .certificate = "c", .private_key = "k"};
}

TEST(SecurityOptionsTest, CertificatesAreAllOrNone) {
  EXPECT_TRUE(CheckSecurity({}).ok());
  EXPECT_TRUE(CheckSecurity(Full()).ok());
  SecurityOptions options = Full();
  options.private_key.clear();
  const Status status = CheckSecurity(options);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("missing here: private key"), std::string::npos);
}

TEST(SecurityOptionsTest, LoopbackNeedsNothing) {
  EXPECT_TRUE(CheckExposure({}, true, "127.0.0.1:1").ok());
}

TEST(SecurityOptionsTest, BeyondLoopbackNeedsTlsAndSecret) {
  EXPECT_EQ(CheckExposure({}, false, "10.0.0.1:1").code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(CheckExposure({.job_secret = "s"}, false, "10.0.0.1:1").code(),
            StatusCode::kPermissionDenied);
  SecurityOptions options = Full();
  EXPECT_TRUE(CheckExposure(options, false, "10.0.0.1:1").ok());
  options.job_secret.clear();
  const Status status = CheckExposure(options, false, "10.0.0.1:1");
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_NE(status.message().find("10.0.0.1:1"), std::string::npos);
  EXPECT_TRUE(CheckExposure({.insecure = true}, false, "10.0.0.1:1").ok());
}

}  // namespace
}  // namespace lockstep::cluster
