#include "lockstep/cli/command.h"

#include <fmt/format.h>

#include <cstdio>

#include "lockstep/base/quote.h"

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

ExitCode CodeOfStart(const Status& status) {
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kNotFound:
    case StatusCode::kAlreadyExists:
    case StatusCode::kPermissionDenied:
    case StatusCode::kFailedPrecondition:
    case StatusCode::kUnauthenticated:
      return ExitCode::kUsage;
    default:
      return CodeOf(status);
  }
}

void PrintOutput(std::string_view text) {
  // Not fmt::print, which throws what the stream keeps anyway.
  std::fwrite(text.data(), 1, text.size(), stdout);
}

void PrintError(const Status& status) {
  std::string text = status.message();
  if (!status.context().empty()) {
    text += fmt::format(" [{}]", fmt::join(status.context(), "; "));
  }
  std::fflush(stdout);
  // Whatever the message repeats, it stays one line of plain text.
  fmt::print(stderr, "lockstep: {}\n", EscapeControls(text));
}

void PrintWarning(std::string_view text) {
  std::fflush(stdout);
  fmt::print(stderr, "lockstep: warning: {}\n", EscapeControls(text));
}

}  // namespace lockstep::cli
