#include "lockstep/cluster/security/certificate_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "lockstep/base/testing/temp_folder.h"

namespace lockstep::cluster {
namespace {

namespace fs = std::filesystem;

mode_t ModeOf(const std::string& path) {
  struct stat info {};

  LS_CHECK(stat(path.c_str(), &info) == 0);
  return info.st_mode & 07777;
}

TEST(CertificateFilesTest, ModesWhateverTheUmask) {
  const lockstep::testing::TempFolder temp;
  const std::string folder = temp.path() + "/new";
  const mode_t before = umask(0);
  ASSERT_TRUE(WriteCertificate(folder, "a", {"certificate", "key"}).ok());
  umask(0777);
  const Status hidden = WriteCertificate(folder, "b", {"certificate", "key"});
  umask(before);
  ASSERT_TRUE(hidden.ok());
  for (const std::string name : {"a", "b"}) {
    EXPECT_EQ(ModeOf(folder + "/" + name + ".key"), 0600U);
    EXPECT_EQ(ModeOf(folder + "/" + name + ".crt"), 0644U);
  }
}

TEST(CertificateFilesTest, WhatIsReadMustBelongTogether) {
  const lockstep::testing::TempFolder temp;
  const std::string& folder = temp.path();
  const CertificateAndKey pair = MakeAuthority({}).value();
  ASSERT_TRUE(WriteCertificate(folder, "a", pair).ok());
  const CertificateAndKey files = ReadCertificate(folder, "a").value();
  EXPECT_EQ(files.certificate, pair.certificate);
  EXPECT_EQ(files.key, pair.key);
  ASSERT_TRUE(WriteCertificate(folder, "junk", {"certificate", "key"}).ok());
  EXPECT_EQ(ReadCertificate(folder, "junk").status().message(),
            folder + "/junk.crt: this is no certificate in PEM");
  ASSERT_TRUE(
      WriteCertificate(folder, "b", {pair.certificate, MakeAuthority({}).value().key}).ok());
  EXPECT_EQ(ReadCertificate(folder, "b").status().message(),
            folder + "/b.key is not the key of " + folder + "/b.crt");
}

TEST(CertificateFilesTest, NothingIsOverwrittenAndNothingIsLeftBehind) {
  const lockstep::testing::TempFolder temp;
  const std::string& folder = temp.path();
  for (const char* suffix : {".crt", ".key"}) {
    const std::string path = folder + "/a" + suffix;
    std::ofstream(path) << "old";
    const Status status = WriteCertificate(folder, "a", {"certificate", "key"});
    EXPECT_EQ(status.code(), StatusCode::kAlreadyExists);
    EXPECT_NE(status.message().find(path), std::string::npos);
    EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1);
    EXPECT_EQ(fs::file_size(path), 3U);
    fs::remove(path);
  }
  // Not even through a link.
  fs::create_symlink(folder + "/elsewhere", folder + "/a.key");
  EXPECT_FALSE(WriteCertificate(folder, "a", {"certificate", "key"}).ok());
  EXPECT_FALSE(fs::exists(folder + "/elsewhere"));
}

TEST(CertificateFilesTest, Names) {
  const lockstep::testing::TempFolder temp;
  for (const char* name : {"", ".", "..", ".a", "a/b", "../a", "a\n"}) {
    EXPECT_EQ(WriteCertificate(temp.path(), name, {"c", "k"}).code(), StatusCode::kInvalidArgument)
        << name;
  }
  EXPECT_EQ(ReadCertificate(temp.path(), "nobody").status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(WriteCertificate(temp.path() + "/new/folder", "a", {"c", "k"}).ok());
  EXPECT_FALSE(WriteCertificate(temp.path() + "/new/folder/a.key/x", "a", {"c", "k"}).ok());
}

}  // namespace
}  // namespace lockstep::cluster
