// What the subcommands of the program share: exit codes, and an outcome that carries one.
#pragma once

#include <chrono>
#include <string_view>

#include "lockstep/base/result.h"

namespace lockstep::cli {

enum class ExitCode : int {
  kDone = 0,
  kOther = 1,
  kUsage = 2,  // flags or configuration
  kPeer = 3,
  kData = 4,
  kInterrupted = 5,
};

// A Status with the exit code that its cause calls for.
struct Outcome {
  Status status;
  ExitCode code = ExitCode::kDone;
};

inline Outcome Done() {
  return {};
}

// Memory that is not there is no mistake of a configuration or a file, wherever it was missed.
inline Outcome Fail(ExitCode code, Status status) {
  if (status.code() == StatusCode::kResourceExhausted) {
    code = ExitCode::kOther;
  }
  return {std::move(status), code};
}

// Flags have seconds.
inline std::chrono::milliseconds Milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

// The code for an error whose place says nothing more: peers by their codes, everything else 1.
ExitCode CodeOf(const Status& status);

// The code for an error that keeps a task out of its cluster: 3 if others are missing or failed, 2
// if what this task or the others were told does not go together.
ExitCode CodeOfStart(const Status& status);

// To standard output. An error is kept by the stream, for the end of the program to report.
void PrintOutput(std::string_view text);

// One line on standard error: "lockstep: message [context]".
void PrintError(const Status& status);

// One line on standard error: "lockstep: warning: text".
void PrintWarning(std::string_view text);

}  // namespace lockstep::cli
