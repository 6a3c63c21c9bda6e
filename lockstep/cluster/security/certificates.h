// Certificates for the tasks of a job: an authority of one's own and what it signs. ECDSA keys on
// P-256, X.509 version 3, everything in PEM. A certificate serves both ends of a connection, since
// every task is server and client; it names every host that it may stand for.
// Errors: INVALID_ARGUMENT for options and input, INTERNAL with OpenSSL's reason for what it
// refuses.
// Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "lockstep/base/result.h"

namespace lockstep::cluster {

struct CertificateAndKey {
  std::string certificate;
  // Whoever has it is the authority or the task.
  std::string key;
};

constexpr int kMaxCertificateDays = 36500;

struct AuthorityOptions {
  std::string name = "Lockstep CA";
  int days = 3650;
};

// It can sign certificates of tasks, but no further authorities.
Result<CertificateAndKey> MakeAuthority(const AuthorityOptions& options);

struct CertificateOptions {
  // The common name, for people; nothing is decided by it.
  std::string name;
  // Names and addresses, without ports; at least one.
  std::vector<std::string> hosts = {};
  int days = 365;
};

// Refuses an authority that is none, whose key is another's, that has expired or that would expire
// before what it signs.
Result<CertificateAndKey> IssueCertificate(const CertificateAndKey& authority,
                                           const CertificateOptions& options);

// What people want to know about a certificate: "Lockstep CA", "2036-11-28 14:00:00".
struct CertificateInfo {
  std::string name;
  std::string issuer;
  std::string not_after;
  // "DNS:a, IP Address:10.0.0.1".
  std::string hosts;
};

Result<CertificateInfo> DescribeCertificate(const std::string& certificate);

}  // namespace lockstep::cluster
