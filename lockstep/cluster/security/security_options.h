// SecurityOptions: how the tasks of a job prove who they are to each other, and whether what they
// say is encrypted. docs/security.md says who may do what.
#pragma once

#include <string>

#include "lockstep/base/result.h"

namespace lockstep::cluster {

struct SecurityOptions {
  // Known to every task of the job and to nobody else. Empty: membership is not proven; allowed on
  // loopback, and elsewhere only if `insecure`.
  std::string job_secret = {};
  // PEM texts: the authority that signed the tasks of this job, and this task's certificate and
  // key. All three or none.
  std::string ca_certificates = {};
  std::string certificate = {};
  std::string private_key = {};
  // Allows plain TCP beyond loopback.
  bool insecure = false;

  bool tls() const { return !certificate.empty(); }
};

// INVALID_ARGUMENT if only a part of the certificates is given.
Status CheckSecurity(const SecurityOptions& options);

// Whether a server may listen, or a client connect, at an address that is (or is not) on loopback;
// PERMISSION_DENIED that says what is missing. `where` is for the message.
Status CheckExposure(const SecurityOptions& options, bool loopback, const std::string& where);

}  // namespace lockstep::cluster
