#include "lockstep/cluster/internal/openssl.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include <array>
#include <ctime>

namespace lockstep::cluster::internal {
namespace {

constexpr size_t kMaxPem = size_t{16} << 20;

Bio ReadOnly(const std::string& text) {
  return Bio(text.size() <= kMaxPem ? BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))
                                    : nullptr);
}

// No password: a key that asks for one is refused instead of waiting at a terminal.
int NoPassword(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*data*/) {
  return -1;
}

Certificate NextCertificate(BIO* bio) {
  Certificate certificate(PEM_read_bio_X509(bio, nullptr, NoPassword, nullptr));
  ERR_clear_error();
  return certificate;
}

}  // namespace

Status OpenSslError(std::string_view action) {
  std::array<char, 256> text{};
  ERR_error_string_n(ERR_get_error(), text.data(), text.size());
  ERR_clear_error();
  return Internal(fmt::format("cannot {}: {}", action, text.data()));
}

std::string TextOf(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);  // NOLINT(google-runtime-int)
  return size > 0 ? std::string(data, static_cast<size_t>(size)) : std::string();
}

std::string TimeText(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) {
    return "an unknown time";
  }
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

Result<std::vector<Certificate>> ParseCertificates(const std::string& pem) {
  std::vector<Certificate> certificates;
  if (const Bio bio = ReadOnly(pem); bio != nullptr) {
    while (Certificate certificate = NextCertificate(bio.get())) {
      certificates.push_back(std::move(certificate));
    }
  }
  if (certificates.empty()) {
    return InvalidArgument("this is no certificate in PEM");
  }
  return certificates;
}

Result<Certificate> ParseCertificate(const std::string& pem) {
  LS_ASSIGN_OR_RETURN(std::vector<Certificate> certificates, ParseCertificates(pem));
  return std::move(certificates.front());
}

Result<Key> ParseKey(const std::string& pem) {
  const Bio bio = ReadOnly(pem);
  Key key(bio == nullptr ? nullptr
                         : PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassword, nullptr));
  ERR_clear_error();
  if (key == nullptr) {
    return InvalidArgument("this is no private key in PEM without a password");
  }
  return key;
}

}  // namespace lockstep::cluster::internal
