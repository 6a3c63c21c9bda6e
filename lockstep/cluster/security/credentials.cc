#include "lockstep/cluster/security/credentials.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <memory>
#include <vector>

#include "lockstep/cluster/internal/openssl.h"

namespace lockstep::cluster {
namespace {

using internal::Certificate;
using internal::Key;
using internal::OpenSslDeleter;
using internal::TimeText;

using Store = std::unique_ptr<X509_STORE, OpenSslDeleter<X509_STORE_free>>;
using StoreContext = std::unique_ptr<X509_STORE_CTX, OpenSslDeleter<X509_STORE_CTX_free>>;

void FreeStack(STACK_OF(X509) * stack) {
  sk_X509_free(stack);
}

using Chain = std::unique_ptr<STACK_OF(X509), OpenSslDeleter<FreeStack>>;

std::string WhyRefused(int error, const X509* certificate, const CredentialNames& names) {
  switch (error) {
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
      return fmt::format("it is not of the authority in {}", names.authority);
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return fmt::format("it, or its authority, has expired; it was valid until {} UTC",
                         TimeText(X509_get0_notAfter(certificate)));
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return fmt::format("it, or its authority, is not valid yet; it is from {} UTC on",
                         TimeText(X509_get0_notBefore(certificate)));
    default:
      return X509_verify_cert_error_string(error);
  }
}

// As the other end of a connection does it, when this task is its client and when its server.
Status Verify(const std::vector<Certificate>& authorities, const std::vector<Certificate>& chain,
              int purpose, const CredentialNames& names) {
  const Store store(X509_STORE_new());
  const StoreContext context(X509_STORE_CTX_new());
  const Chain others(sk_X509_new_null());
  if (store == nullptr || context == nullptr || others == nullptr) {
    return internal::OpenSslError("prepare to verify a certificate");
  }
  for (const Certificate& authority : authorities) {
    X509_STORE_add_cert(store.get(), authority.get());
  }
  for (const Certificate& certificate : chain) {
    sk_X509_push(others.get(), certificate.get());
  }
  // What gRPC sets.
  X509_STORE_set_flags(store.get(), X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_TRUSTED_FIRST);
  if (X509_STORE_CTX_init(context.get(), store.get(), chain.front().get(), others.get()) != 1 ||
      X509_STORE_CTX_set_purpose(context.get(), purpose) != 1) {
    return internal::OpenSslError("prepare to verify a certificate");
  }
  const bool verified = X509_verify_cert(context.get()) == 1;
  ERR_clear_error();
  if (!verified) {
    return InvalidArgument(fmt::format(
        "{} would be refused by every other task: {}", names.certificate,
        WhyRefused(X509_STORE_CTX_get_error(context.get()), chain.front().get(), names)));
  }
  return OkStatus();
}

Result<std::vector<Certificate>> ParseNamed(const std::string& pem, const std::string& name) {
  Result<std::vector<Certificate>> parsed = internal::ParseCertificates(pem);
  if (!parsed.ok()) {
    return Status(parsed.status().code(), fmt::format("{}: {}", name, parsed.status().message()));
  }
  return parsed;
}

}  // namespace

Status CheckPair(const CertificateAndKey& pair, const CredentialNames& names) {
  LS_ASSIGN_OR_RETURN(const auto chain, ParseNamed(pair.certificate, names.certificate));
  const Result<Key> key = internal::ParseKey(pair.key);
  if (!key.ok()) {
    return {key.status().code(), fmt::format("{}: {}", names.key, key.status().message())};
  }
  const bool together = X509_check_private_key(chain.front().get(), key->get()) == 1;
  ERR_clear_error();
  if (!together) {
    return InvalidArgument(fmt::format("{} is not the key of {}", names.key, names.certificate));
  }
  return OkStatus();
}

Status CheckCredentials(const SecurityOptions& options, const CredentialNames& names) {
  LS_TRY(CheckSecurity(options));
  if (!options.tls()) {
    return OkStatus();
  }
  LS_ASSIGN_OR_RETURN(const auto authorities, ParseNamed(options.ca_certificates, names.authority));
  LS_TRY(CheckPair({options.certificate, options.private_key}, names));
  LS_ASSIGN_OR_RETURN(const auto chain, ParseNamed(options.certificate, names.certificate));
  for (const int purpose : {X509_PURPOSE_SSL_SERVER, X509_PURPOSE_SSL_CLIENT}) {
    LS_TRY(Verify(authorities, chain, purpose, names));
  }
  return OkStatus();
}

Status CheckCertifiedHost(const SecurityOptions& options, const net::Address& address) {
  if (!options.tls()) {
    return OkStatus();
  }
  LS_ASSIGN_OR_RETURN(const Certificate certificate,
                      internal::ParseCertificate(options.certificate));
  const std::string& host = address.host();
  const bool named =
      address.kind() == net::Address::Kind::kName
          ? X509_check_host(certificate.get(), host.data(), host.size(), 0, nullptr) == 1
          : X509_check_ip_asc(certificate.get(), host.substr(0, host.find('%')).c_str(), 0) == 1;
  ERR_clear_error();
  if (named) {
    return OkStatus();
  }
  LS_ASSIGN_OR_RETURN(const CertificateInfo info, DescribeCertificate(options.certificate));
  return InvalidArgument(fmt::format(
      "the certificate is for {}, not for {}, by which the others know this task: they would "
      "refuse it",
      info.hosts.empty() ? "no host" : info.hosts, host));
}

}  // namespace lockstep::cluster
