#include "lockstep/cli/command.h"

#include <fmt/format.h>

#include <cstdio>

namespace lockstep::cli {

ExitCode CodeOf(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk:
      return ExitCode::kDone;
    case StatusCode::kUnavailable:
    case StatusCode::kDeadlineExceeded:
    case StatusCode::kAborted:
      return ExitCode::kPeer;
    default:
      return ExitCode::kOther;
  }
}

void PrintError(const Status& status) {
  std::string text = status.message();
  if (!status.context().empty()) {
    text += fmt::format(" [{}]", fmt::join(status.context(), "; "));
  }
  std::fflush(stdout);
  fmt::print(stderr, "lockstep: {}\n", text);
}

}  // namespace lockstep::cli
