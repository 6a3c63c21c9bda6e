// One task of a launch as a process.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/result.h"

namespace lockstep::cluster {

struct Child {
  pid_t pid = -1;
  // The read ends of its standard output and error, not blocking; -1 if it has ours.
  lockstep::internal::Descriptor out{-1};
  lockstep::internal::Descriptor err{-1};
};

enum class ChildOutput {
  kPipes,
  // The standard output and error of the calling process.
  kOurs,
};

// Starts `command` (looked up in PATH as a shell does) with exactly this environment. The process
// leads a group of its own, reads from /dev/null, has the default signals, and gets SIGKILL when
// the calling process ends. NOT_FOUND, PERMISSION_DENIED and so on if it cannot be executed.
// For a process with one thread.
Result<Child> StartChild(const std::vector<std::string>& command,
                         const std::vector<std::string>& environment,
                         ChildOutput output = ChildOutput::kPipes);

}  // namespace lockstep::cluster
