// CheckCredentials: whether a task's certificates can work at all, before anybody is connected to.
#pragma once

#include <string>

#include "lockstep/base/result.h"
#include "lockstep/cluster/security/certificates.h"
#include "lockstep/cluster/security/security_options.h"
#include "lockstep/net/address.h"

namespace lockstep::cluster {

// What messages call the three texts: paths, where they are of files.
struct CredentialNames {
  std::string authority = "the authority";
  std::string certificate = "the certificate";
  std::string key = "the private key";
};

// INVALID_ARGUMENT unless both are what they should be and belong together.
Status CheckPair(const CertificateAndKey& pair, const CredentialNames& names);

// OK without TLS. INVALID_ARGUMENT that names the text at fault: only a part of the three is there,
// one is not what it should be, the key is of another certificate, or the certificate is not one
// that others of this authority would accept now.
Status CheckCredentials(const SecurityOptions& options, const CredentialNames& names = {});

// Whether others can verify that this task is at `address`, by which they know it.
Status CheckCertifiedHost(const SecurityOptions& options, const net::Address& address);

}  // namespace lockstep::cluster
