// The fingerprint of a job as its configuration and data have it (train/fingerprint.h).
#pragma once

#include <string>

#include "lockstep/base/result.h"
#include "lockstep/cli/job.h"

namespace lockstep::cli {

// Of the model alone: what evaluation needs to know.
std::string ModelFingerprint(const Job& job);

// Of a training run, the samples included, which are hashed. Errors: a run without an end.
Result<std::string> RunFingerprint(const Job& job);

// The same, and all settings besides in which the workers of a run must agree to make the same
// calls in the same order.
Result<std::string> WorkerFingerprint(const Job& job);

}  // namespace lockstep::cli
