// Parts of a placed graph as bytes, to be sent to the task that runs them. Pure functions,
// thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/graph/serialize.h"
#include "lockstep/pass/partition.h"

namespace lockstep::pass {

// With feeds and fetches in order, but not their positions in the signature.
Result<std::string> SerializePart(const Part& part);

struct PartLimits {
  ParseLimits graph = {};
  // Transfer numbers are below this.
  int64_t max_transfers = 1'000'000;
};

// The input is hostile: besides what ParseGraph checks, it is what Partition makes. Every shape is
// known; every node is on `device`; nodes stand in an order in which they can run; placeholders are
// feeds and nothing else is; transfers lead to or from another device, each number once; a value of
// which only the shape is there is not used otherwise. Errors are those of ParseGraph, or
// INVALID_ARGUMENT, and name the node. Feeds and fetches are numbered as they stand.
Result<Part> ParsePart(std::string_view bytes, const OpCatalog& catalog, const PartLimits& limits,
                       std::string_view device);

}  // namespace lockstep::pass
