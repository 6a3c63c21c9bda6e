#include "lockstep/cluster/security/certificates.h"

#include <fmt/format.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <array>
#include <ctime>
#include <set>

#include "lockstep/base/quote.h"
#include "lockstep/cluster/internal/openssl.h"
#include "lockstep/net/address.h"

namespace lockstep::cluster {
namespace {

using internal::Bio;
using internal::Certificate;
using internal::Key;
using internal::OpenSslDeleter;
using internal::OpenSslError;
using internal::ParseCertificate;
using internal::ParseKey;
using internal::TextOf;
using internal::TimeText;

using Extension = std::unique_ptr<X509_EXTENSION, OpenSslDeleter<X509_EXTENSION_free>>;
using BigNumber = std::unique_ptr<BIGNUM, OpenSslDeleter<BN_free>>;

constexpr size_t kMaxName = 64;  // X.520's bound of a common name.
constexpr size_t kMaxHosts = 10000;
constexpr int kSerialBits = 127;
// Clocks of other hosts may be late by that much.
constexpr long kBackdateSeconds = -300;  // NOLINT(google-runtime-int): OpenSSL's type.

Status CheckOptions(const std::string& name, int days) {
  if (name.empty() || name.size() > kMaxName || HasControlCharacters(name)) {
    return InvalidArgument(
        fmt::format("the name {}: allowed are 1 to {} bytes without control "
                    "characters",
                    Quoted(name), kMaxName));
  }
  if (days < 1 || days > kMaxCertificateDays) {
    return InvalidArgument(fmt::format("{} days: allowed are 1 to {}", days, kMaxCertificateDays));
  }
  return OkStatus();
}

// "DNS:a,IP:10.0.0.1", as OpenSSL's configuration has it. Hosts cannot have commas.
Result<std::string> AlternativeNames(const std::vector<std::string>& hosts) {
  if (hosts.empty() || hosts.size() > kMaxHosts) {
    return InvalidArgument(
        fmt::format("a certificate for {} hosts: allowed are 1 to {}", hosts.size(), kMaxHosts));
  }
  std::string text;
  std::set<std::string> seen;
  for (const std::string& host : hosts) {
    const Result<net::Address> address = net::Address::Make(host, 1);
    if (!address.ok() || address->unspecified() || address->host().find('%') != std::string::npos) {
      return InvalidArgument(fmt::format(
          "host {}: expected a host name, an IPv4 or an IPv6 address, without port", Quoted(host)));
    }
    if (seen.insert(address->host()).second) {
      text +=
          fmt::format("{}{}:{}", text.empty() ? "" : ",",
                      address->kind() == net::Address::Kind::kName ? "DNS" : "IP", address->host());
    }
  }
  return text;
}

Status AddExtension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  if (extension == nullptr || X509_add_ext(certificate, extension.get(), -1) != 1) {
    return OpenSslError(fmt::format("add the extension {}", OBJ_nid2sn(nid)));
  }
  return OkStatus();
}

Status SetName(X509_NAME* subject, const std::string& name) {
  if (X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                                 reinterpret_cast<const unsigned char*>(name.data()),
                                 static_cast<int>(name.size()), -1, 0) != 1) {
    ERR_clear_error();
    return InvalidArgument(fmt::format("the name {} cannot stand in a certificate", Quoted(name)));
  }
  return OkStatus();
}

// Version, serial, times, subject and key; extensions and signature are still to come.
Result<Certificate> Begin(const std::string& name, int days, EVP_PKEY* key) {
  Certificate certificate(X509_new());
  const BigNumber serial(BN_new());
  if (certificate == nullptr || serial == nullptr ||
      BN_rand(serial.get(), kSerialBits, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) != 1 ||
      BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(certificate.get())) == nullptr ||
      X509_set_version(certificate.get(), X509_VERSION_3) != 1 ||
      X509_gmtime_adj(X509_getm_notBefore(certificate.get()), kBackdateSeconds) == nullptr ||
      X509_time_adj_ex(X509_getm_notAfter(certificate.get()), days, 0, nullptr) == nullptr ||
      X509_set_pubkey(certificate.get(), key) != 1) {
    return OpenSslError("make a certificate");
  }
  LS_TRY(SetName(X509_get_subject_name(certificate.get()), name));
  return certificate;
}

Result<CertificateAndKey> Finish(X509* certificate, EVP_PKEY* key, EVP_PKEY* signer) {
  const Bio certificate_text(BIO_new(BIO_s_mem()));
  const Bio key_text(BIO_new(BIO_s_mem()));
  if (X509_sign(certificate, signer, EVP_sha256()) == 0 || certificate_text == nullptr ||
      key_text == nullptr || PEM_write_bio_X509(certificate_text.get(), certificate) != 1 ||
      PEM_write_bio_PrivateKey(key_text.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return OpenSslError("sign and write a certificate");
  }
  return CertificateAndKey{TextOf(certificate_text.get()), TextOf(key_text.get())};
}

Result<Key> MakeKey() {
  Key key(EVP_EC_gen("P-256"));
  if (key == nullptr) {
    return OpenSslError("make a key");
  }
  return key;
}

// Can `authority` sign something that is valid as long as `certificate`?
Status CheckAuthority(X509* authority, EVP_PKEY* key, const X509* certificate) {
  if (X509_check_ca(authority) != 1) {
    return InvalidArgument("the authority's certificate is not one of an authority");
  }
  if (X509_check_private_key(authority, key) != 1) {
    ERR_clear_error();
    return InvalidArgument("the authority's certificate and key do not belong together");
  }
  const ASN1_TIME* end = X509_get0_notAfter(authority);
  if (X509_cmp_current_time(end) < 0) {
    return InvalidArgument(fmt::format("the authority has expired, at {} UTC", TimeText(end)));
  }
  if (ASN1_TIME_compare(X509_get0_notAfter(certificate), end) > 0) {
    return InvalidArgument(
        fmt::format("the certificate would be valid until {} UTC, longer than its authority, which "
                    "is until {}",
                    TimeText(X509_get0_notAfter(certificate)), TimeText(end)));
  }
  return OkStatus();
}

std::string NameText(const X509_NAME* name) {
  std::array<char, 4 * kMaxName + 1> text{};
  X509_NAME_get_text_by_NID(const_cast<X509_NAME*>(name), NID_commonName, text.data(),
                            static_cast<int>(text.size()));
  return text.data();
}

}  // namespace

Result<CertificateAndKey> MakeAuthority(const AuthorityOptions& options) {
  LS_TRY(CheckOptions(options.name, options.days));
  LS_ASSIGN_OR_RETURN(const Key key, MakeKey());
  LS_ASSIGN_OR_RETURN(const Certificate certificate, Begin(options.name, options.days, key.get()));
  X509* const self = certificate.get();
  if (X509_set_issuer_name(self, X509_get_subject_name(self)) != 1) {
    return OpenSslError("name the issuer");
  }
  LS_TRY(AddExtension(self, self, NID_basic_constraints, "critical,CA:TRUE,pathlen:0"));
  LS_TRY(AddExtension(self, self, NID_key_usage, "critical,keyCertSign,cRLSign"));
  LS_TRY(AddExtension(self, self, NID_subject_key_identifier, "hash"));
  LS_TRY(AddExtension(self, self, NID_authority_key_identifier, "keyid:always"));
  return Finish(self, key.get(), key.get());
}

Result<CertificateAndKey> IssueCertificate(const CertificateAndKey& authority,
                                           const CertificateOptions& options) {
  LS_TRY(CheckOptions(options.name, options.days));
  LS_ASSIGN_OR_RETURN(const std::string names, AlternativeNames(options.hosts));
  LS_ASSIGN_OR_RETURN(const Certificate issuer, ParseCertificate(authority.certificate));
  LS_ASSIGN_OR_RETURN(const Key issuer_key, ParseKey(authority.key));
  LS_ASSIGN_OR_RETURN(const Key key, MakeKey());
  LS_ASSIGN_OR_RETURN(const Certificate certificate, Begin(options.name, options.days, key.get()));
  X509* const leaf = certificate.get();
  LS_TRY(CheckAuthority(issuer.get(), issuer_key.get(), leaf));
  if (X509_set_issuer_name(leaf, X509_get_subject_name(issuer.get())) != 1) {
    return OpenSslError("name the issuer");
  }
  LS_TRY(AddExtension(leaf, issuer.get(), NID_basic_constraints, "critical,CA:FALSE"));
  LS_TRY(AddExtension(leaf, issuer.get(), NID_key_usage, "critical,digitalSignature"));
  LS_TRY(AddExtension(leaf, issuer.get(), NID_ext_key_usage, "serverAuth,clientAuth"));
  LS_TRY(AddExtension(leaf, issuer.get(), NID_subject_alt_name, names));
  LS_TRY(AddExtension(leaf, issuer.get(), NID_subject_key_identifier, "hash"));
  LS_TRY(AddExtension(leaf, issuer.get(), NID_authority_key_identifier, "keyid:always"));
  return Finish(leaf, key.get(), issuer_key.get());
}

Result<CertificateInfo> DescribeCertificate(const std::string& certificate) {
  LS_ASSIGN_OR_RETURN(const Certificate parsed, ParseCertificate(certificate));
  CertificateInfo info;
  info.name = NameText(X509_get_subject_name(parsed.get()));
  info.issuer = NameText(X509_get_issuer_name(parsed.get()));
  info.not_after = TimeText(X509_get0_notAfter(parsed.get()));
  const int index = X509_get_ext_by_NID(parsed.get(), NID_subject_alt_name, -1);
  if (index >= 0) {
    const Bio text(BIO_new(BIO_s_mem()));
    X509V3_EXT_print(text.get(), X509_get_ext(parsed.get(), index), 0, 0);
    info.hosts = TextOf(text.get());
  }
  return info;
}

}  // namespace lockstep::cluster
