// `lockstep checkpoint`: what can be done with checkpoints besides training.
#pragma once

#include "lockstep/cli/command.h"

namespace CLI {
class App;
}

namespace lockstep::cli {

// Adds it to the program; what it did goes to `outcome`, which must outlive the app.
void AddCheckpointCommands(CLI::App& app, Outcome& outcome);

}  // namespace lockstep::cli
