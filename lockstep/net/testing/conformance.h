// What every kind of transport must do, as one test suite. A kind's test program links the suite
// and names how to make a cluster of its kind:
//
//   INSTANTIATE_TEST_SUITE_P(Sim, TransportConformance, Values(Kind{"sim", MakeSim}), KindName);
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "lockstep/net/transport.h"

namespace lockstep::net::testing {

// Tasks of one job that live in this process and are all connected.
class TestCluster {
 public:
  virtual ~TestCluster() = default;
  virtual Transport& transport(PeerId task) = 0;
  // Calls `run` for every task in a thread of its own.
  virtual void RunTasks(const std::function<void(PeerId)>& run) = 0;
};

struct Kind {
  std::string name;
  std::function<std::unique_ptr<TestCluster>(int num_tasks)> make;
  // How often the longer tests repeat: fewer for slow links.
  int scale = 100;
};

inline void PrintTo(const Kind& kind, std::ostream* out) {
  *out << kind.name;
}

inline std::string KindName(const ::testing::TestParamInfo<Kind>& info) {
  return info.param.name;
}

class TransportConformance : public ::testing::TestWithParam<Kind> {
 protected:
  std::unique_ptr<TestCluster> Make(int num_tasks) { return GetParam().make(num_tasks); }
};

}  // namespace lockstep::net::testing
