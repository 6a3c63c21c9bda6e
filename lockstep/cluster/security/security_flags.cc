#include "lockstep/cluster/security/security_flags.h"

#include <fmt/format.h>

#include "lockstep/base/file.h"
#include "lockstep/cluster/internal/rank_layout.h"
#include "lockstep/cluster/security/credentials.h"

namespace lockstep::cluster {
namespace {

using internal::FindVariable;

constexpr uint64_t kMaxFileBytes = uint64_t{1} << 20;

// The content of the file that the flag or the variable names, and what messages call it; empty if
// neither does.
Result<std::string> ReadNamed(const std::optional<std::string>& flag, const Variables& variables,
                              std::string_view variable, std::string& name) {
  if (flag) {
    name = *flag;
    return ReadFile(*flag, kMaxFileBytes);
  }
  if (const std::string* path = FindVariable(variables, variable); path != nullptr) {
    name = fmt::format("{} ({})", *path, variable);
    Result<std::string> text = ReadFile(*path, kMaxFileBytes);
    return text.ok() ? std::move(text) : text.status().With(std::string(variable));
  }
  return std::string();
}

}  // namespace

Result<SecurityOptions> ReadSecurity(const SecurityFlags& flags, const Variables& variables) {
  SecurityOptions security;
  CredentialNames names;
  security.insecure = flags.insecure;
  LS_ASSIGN_OR_RETURN(security.ca_certificates,
                      ReadNamed(flags.ca_file, variables, "LOCKSTEP_CA_FILE", names.authority));
  LS_ASSIGN_OR_RETURN(security.certificate, ReadNamed(flags.certificate_file, variables,
                                                      "LOCKSTEP_CERT_FILE", names.certificate));
  LS_ASSIGN_OR_RETURN(security.private_key,
                      ReadNamed(flags.key_file, variables, "LOCKSTEP_KEY_FILE", names.key));
  if (flags.secret_file) {
    LS_ASSIGN_OR_RETURN(security.job_secret, ReadFile(*flags.secret_file, kMaxFileBytes));
    if (security.job_secret.empty()) {
      return InvalidArgument(fmt::format("{}: the job's secret is empty", *flags.secret_file));
    }
  } else if (const std::string* secret = FindVariable(variables, kJobSecretVariable)) {
    security.job_secret = *secret;
  }
  LS_TRY(CheckCredentials(security, names));
  return security;
}

}  // namespace lockstep::cluster
