// The commands that are about clusters, with their flags: cluster, certs, launch, server; and the
// flags of every command that may be a task of one.
#pragma once

#include "lockstep/cli/cluster.h"
#include "lockstep/cli/command.h"
#include "lockstep/cluster/security/security_flags.h"

namespace CLI {
class App;
}

namespace lockstep::cli {

// Flags that describe a cluster and this task's place in it, but for the number of parameter
// servers among the ranks of a launcher.
void AddClusterFlags(CLI::App* command, ClusterSourceFlags& flags);

// What a task proves itself with.
void AddSecurityFlags(CLI::App* command, cluster::SecurityFlags& security);

// Adds them to the program; what one of them did goes to `outcome`, which must outlive the app.
void AddClusterCommands(CLI::App& app, Outcome& outcome);

}  // namespace lockstep::cli
