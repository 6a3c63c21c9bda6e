// What collective calls must do over every kind of transport, as one test suite. A test program
// links the suite and names how to make clusters of its kind, as that of the transports does.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "lockstep/net/testing/conformance.h"

namespace lockstep::collective::testing {

struct Kind {
  std::string name;
  std::function<std::unique_ptr<net::testing::TestCluster>(int num_tasks)> make;
  std::vector<int> members;  // numbers of members to test with
  bool threads = true;       // calls may be started in the background
  bool shared_memory = true;
  int members_per_host = 0;  // as the links have it if 0
};

inline void PrintTo(const Kind& kind, std::ostream* out) {
  *out << kind.name;
}

inline std::string KindName(const ::testing::TestParamInfo<Kind>& info) {
  return info.param.name;
}

class CollectiveConformance : public ::testing::TestWithParam<Kind> {};

}  // namespace lockstep::collective::testing
