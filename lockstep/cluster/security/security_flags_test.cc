#include "lockstep/cluster/security/security_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "lockstep/cluster/resolver/resolve.h"
#include "lockstep/cluster/security/certificates.h"

namespace lockstep::cluster {
namespace {

using ::testing::HasSubstr;

std::string WriteText(const std::string& name, const std::string& text) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) /
      ::testing::UnitTest::GetInstance()->current_test_info()->name();
  std::filesystem::create_directories(folder);
  std::ofstream(folder / name) << text;
  return folder / name;
}

TEST(SecurityFlagsTest, NothingGivenIsNothing) {
  const Result<SecurityOptions> security = ReadSecurity({}, {});
  ASSERT_TRUE(security.ok());
  EXPECT_FALSE(security->tls());
  EXPECT_EQ(security->job_secret, "");
  EXPECT_FALSE(security->insecure);
}

TEST(SecurityFlagsTest, FlagsWinOverVariables) {
  const std::array<std::string, 3> entries = {"LOCKSTEP_JOB_SECRET=from the environment",
                                              "LOCKSTEP_CA_FILE=" + WriteText("other", "other ca"),
                                              "HOME=/"};
  const std::array<const char*, 4> environment = {entries[0].c_str(), entries[1].c_str(),
                                                  entries[2].c_str(), nullptr};
  const Variables variables = CollectVariables(environment.data());
  EXPECT_EQ(variables.size(), 2U);

  const CertificateAndKey authority = MakeAuthority({}).value();
  const CertificateAndKey task = IssueCertificate(authority, {"task", {"a"}}).value();
  SecurityFlags flags;
  flags.ca_file = WriteText("ca", authority.certificate);
  flags.certificate_file = WriteText("cert", task.certificate);
  flags.key_file = WriteText("key", task.key);
  Result<SecurityOptions> security = ReadSecurity(flags, variables);
  ASSERT_TRUE(security.ok()) << security.status().ToString();
  EXPECT_EQ(security->ca_certificates, authority.certificate);
  EXPECT_EQ(security->certificate, task.certificate);
  EXPECT_EQ(security->private_key, task.key);
  EXPECT_EQ(security->job_secret, "from the environment");

  flags.secret_file = WriteText("secret", "from the file");
  security = ReadSecurity(flags, variables);
  ASSERT_TRUE(security.ok());
  EXPECT_EQ(security->job_secret, "from the file");
}

TEST(SecurityFlagsTest, WhatIsWrongIsNamed) {
  SecurityFlags flags;
  flags.secret_file = WriteText("empty", "");
  EXPECT_THAT(ReadSecurity(flags, {}).status().message(), HasSubstr("empty: the job's secret"));
  const Status missing = ReadSecurity({}, {{"LOCKSTEP_KEY_FILE", "/nowhere/task.key"}}).status();
  EXPECT_THAT(missing.ToString(), HasSubstr("/nowhere/task.key"));
  EXPECT_THAT(missing.ToString(), HasSubstr("LOCKSTEP_KEY_FILE"));
  const Status part =
      ReadSecurity({}, {{"LOCKSTEP_CERT_FILE", WriteText("cert", "text")}}).status();
  EXPECT_EQ(part.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(part.message(), HasSubstr("authority private key"));
  const std::string path = WriteText("junk", "junk");
  const Status junk = ReadSecurity({}, {{"LOCKSTEP_CA_FILE", path},
                                        {"LOCKSTEP_CERT_FILE", path},
                                        {"LOCKSTEP_KEY_FILE", path}})
                          .status();
  EXPECT_EQ(junk.message(), path + " (LOCKSTEP_CA_FILE): this is no certificate in PEM");
}

}  // namespace
}  // namespace lockstep::cluster
