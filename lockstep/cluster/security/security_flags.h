// Where a task finds what it proves itself with: flags, or variables of its environment.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lockstep/base/result.h"
#include "lockstep/cluster/resolver/resolution.h"
#include "lockstep/cluster/security/security_options.h"

namespace lockstep::cluster {

// The variable whose value is the job's secret. `lockstep launch` makes one up for its tasks.
inline constexpr std::string_view kJobSecretVariable = "LOCKSTEP_JOB_SECRET";

// Paths of PEM files and of the secret. What is not given is looked for in the variables
// LOCKSTEP_CA_FILE, LOCKSTEP_CERT_FILE, LOCKSTEP_KEY_FILE and LOCKSTEP_JOB_SECRET.
struct SecurityFlags {
  std::optional<std::string> ca_file;
  std::optional<std::string> certificate_file;
  std::optional<std::string> key_file;
  std::optional<std::string> secret_file;
  bool insecure = false;
};

// INVALID_ARGUMENT for an empty secret and, by the names of the files, for certificates that cannot
// work (credentials.h); the errors of reading.
Result<SecurityOptions> ReadSecurity(const SecurityFlags& flags, const Variables& variables);

}  // namespace lockstep::cluster
