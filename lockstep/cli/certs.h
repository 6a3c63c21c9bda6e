// `lockstep certs ca` and `lockstep certs issue`.
#pragma once

#include <string>
#include <vector>

#include "lockstep/cli/cluster.h"
#include "lockstep/cli/command.h"

namespace lockstep::cli {

struct CertsAuthorityFlags {
  std::string folder;
  std::string name = "Lockstep CA";
  int days = 3650;
};

// Writes ca.crt and ca.key into the folder.
Outcome MakeCertsAuthority(const CertsAuthorityFlags& flags);

struct CertsIssueFlags {
  // Where ca.crt and ca.key are.
  std::string authority;
  // Where NAME.crt and NAME.key go; empty for the authority's folder.
  std::string folder;
  std::string name;
  std::vector<std::string> hosts;
  // Whose hosts are taken as well.
  ClusterSourceFlags cluster;
  int days = 365;
};

// One certificate for all the hosts.
Outcome IssueCerts(const CertsIssueFlags& flags);

}  // namespace lockstep::cli
