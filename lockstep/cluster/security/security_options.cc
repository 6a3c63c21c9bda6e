#include "lockstep/cluster/security/security_options.h"

#include <fmt/format.h>

namespace lockstep::cluster {

Status CheckSecurity(const SecurityOptions& options) {
  const bool all = !options.ca_certificates.empty() && !options.certificate.empty() &&
                   !options.private_key.empty();
  const bool none =
      options.ca_certificates.empty() && options.certificate.empty() && options.private_key.empty();
  if (all || none) {
    return OkStatus();
  }
  return InvalidArgument(fmt::format(
      "mutual TLS needs an authority, a certificate and a private key; missing here:{}{}{}",
      options.ca_certificates.empty() ? " authority" : "",
      options.certificate.empty() ? " certificate" : "",
      options.private_key.empty() ? " private key" : ""));
}

Status CheckExposure(const SecurityOptions& options, bool loopback, const std::string& where) {
  LS_TRY(CheckSecurity(options));
  if (loopback || options.insecure) {
    return OkStatus();
  }
  if (!options.tls()) {
    return PermissionDenied(
        fmt::format("{} is not on loopback: mutual TLS is needed there (certificates of `lockstep "
                    "certs`), or --insecure to do without",
                    where));
  }
  if (options.job_secret.empty()) {
    return PermissionDenied(
        fmt::format("{} is not on loopback: the job needs a secret there, or --insecure to do "
                    "without",
                    where));
  }
  return OkStatus();
}

}  // namespace lockstep::cluster
