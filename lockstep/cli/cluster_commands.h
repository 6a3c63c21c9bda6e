// The commands that are about clusters, with their flags: cluster, certs, launch, server.
#pragma once

#include "lockstep/cli/command.h"

namespace CLI {
class App;
}

namespace lockstep::cli {

// Adds them to the program; what one of them did goes to `outcome`, which must outlive the app.
void AddClusterCommands(CLI::App& app, Outcome& outcome);

}  // namespace lockstep::cli
