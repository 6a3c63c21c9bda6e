// The ops that fuzzed graphs may have: those of Lockstep and the sample ops, which bring inputs of
// every kind and attributes of every type.
#pragma once

#include "lockstep/graph/testing/sample_graph.h"
#include "lockstep/op/catalog.h"

namespace lockstep::testing {

inline OpCatalog FuzzCatalog() {
  std::vector<OpDef> ops = SampleOps();
  const auto known = op::Catalog().ops();
  ops.insert(ops.end(), known.begin(), known.end());
  return OpCatalog(std::move(ops));
}

}  // namespace lockstep::testing
