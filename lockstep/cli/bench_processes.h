// Processes of a measurement that need each other's addresses.
#pragma once

#include <functional>
#include <string>

#include "lockstep/net/wire_up.h"

namespace lockstep::cli {

// Forks `count` processes that each call `run` with their number, and returns what process 0
// answered. Each must put one blob into the exchange, and may get those of all. The calling process
// must have one thread. Errors: the first one that a process returned, Unavailable if one ended
// otherwise.
Result<std::string> RunForked(
    int count, const std::function<Result<std::string>(int, net::BlobExchange&)>& run);

}  // namespace lockstep::cli
