// lockstep bench transport: round trips and streams between two processes of this machine, over
// each kind of link, beside memcpy in the same run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/cli/command.h"
#include "lockstep/net/wire_up.h"

namespace lockstep::cli {

struct BenchTransportFlags {
  std::vector<std::string> links;  // kinds; all if empty
  int64_t repeats = 5;             // of each stream; round trips are many more
  bool json = false;
};

// What is measured over "shm", "ucx" (TCP on loopback), "grpc", or "grpc-tls" (with certificates
// made for this run). Errors: InvalidArgument for another name.
Result<net::LinkChoice> MeasuredLink(const std::string& name);

// Starts its own second process. A table, or one JSON object, on standard output.
Outcome BenchTransport(const BenchTransportFlags& flags);

}  // namespace lockstep::cli
