#include "lockstep/cluster/security/security_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "lockstep/cluster/resolver/resolve.h"

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

  SecurityFlags flags;
  flags.ca_file = WriteText("ca", "ca text");
  flags.certificate_file = WriteText("cert", "certificate text");
  flags.key_file = WriteText("key", "key text");
  Result<SecurityOptions> security = ReadSecurity(flags, variables);
  ASSERT_TRUE(security.ok()) << security.status().ToString();
  EXPECT_EQ(security->ca_certificates, "ca text");
  EXPECT_EQ(security->certificate, "certificate text");
  EXPECT_EQ(security->private_key, "key text");
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
}

}  // namespace
}  // namespace lockstep::cluster
