#include "lockstep/cli/launch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "lockstep/base/hmac.h"
#include "lockstep/cluster/launch/launch.h"
#include "lockstep/cluster/security/security_flags.h"

namespace lockstep::cli {

Outcome LaunchWithSecret(cluster::LaunchOptions options) {
  bool has_secret = false;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    options.environment.emplace_back(*entry);
    has_secret = has_secret || options.environment.back().starts_with(
                                   fmt::format("{}=", cluster::kJobSecretVariable));
  }
  if (!has_secret) {
    Digest secret{};
    if (const Status status = FillRandom(secret); !status.ok()) {
      return Fail(ExitCode::kOther, status);
    }
    options.environment.push_back(
        fmt::format("{}={:02x}", cluster::kJobSecretVariable, fmt::join(secret, "")));
  }
  // What is buffered here would be written a second time by the child.
  std::fflush(nullptr);
  const Result<int> code = cluster::Launch(options);
  if (!code.ok()) {
    const bool usage = code.status().code() == StatusCode::kInvalidArgument;
    return Fail(usage ? ExitCode::kUsage : CodeOf(code.status()), code.status());
  }
  return {OkStatus(), static_cast<ExitCode>(*code)};
}

Outcome LaunchTasks(const LaunchFlags& flags) {
  cluster::LaunchOptions options;
  options.workers = flags.workers;
  options.ps = flags.ps;
  options.command = flags.command;
  options.settle = Milliseconds(flags.settle_seconds);
  options.grace = Milliseconds(flags.grace_seconds);
  return LaunchWithSecret(std::move(options));
}

}  // namespace lockstep::cli
