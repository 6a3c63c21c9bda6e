// Whether the file that a run writes at its end can be written, and is nobody else's. What happens
// to the disk in between is seen when it is written.
#pragma once

#include <memory>
#include <string>

#include "lockstep/cli/command.h"
#include "lockstep/train/config.h"
#include "lockstep/train/summary_file.h"

namespace lockstep::cli {

// What a run reads and writes besides its summary.
struct RunFiles {
  std::string config_path;
  const train::Config& config;
  // One checkpoint or the folder of several; empty for none.
  std::string checkpoints;
};

// The folder of the file must exist and be writable. The file itself may exist, but must be an
// older summary that the run neither reads nor writes otherwise, and no other run's. What the user
// can mend by giving another path is a usage error. An empty path leaves `summary` empty.
Outcome OpenSummary(const std::string& path, const RunFiles& files,
                    std::unique_ptr<train::SummaryFile>& summary);

// The exit code for a path that the user gave and that cannot be used: another one can.
ExitCode CodeOfPath(const Status& status);

}  // namespace lockstep::cli
