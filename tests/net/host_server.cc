// One task of a cluster whose tasks are on different hosts, for hosts_test.py. Each starts a
// server; the first runs placed steps that go through all tasks and back, and checks every result.
//
//   host_server --spec "worker|a:4000;b:4000" --task 0 [--transport grpc] [--data-ports 5000-5009]
//               [--heartbeat SECONDS] [--steps N] [--elements N] [--insecure]
//
// Certificates and the job's secret are what LOCKSTEP_CA_FILE, ... say. Exit codes: 0, 2 for wrong
// arguments, 3 when a task cannot be reached or is lost.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "lockstep/base/log.h"
#include "lockstep/cluster/client/remote_session.h"
#include "lockstep/cluster/resolver/resolve.h"
#include "lockstep/cluster/security/security_flags.h"
#include "lockstep/cluster/server/server.h"
#include "lockstep/graph/builder.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/catalog.h"
#include "lockstep/op/placeholder.h"
#include "tests/net/host_flags.h"

namespace {

using namespace lockstep;  // NOLINT(google-build-using-namespace)
using std::chrono::milliseconds;

Result<cluster::ServerDef> Describe(const HostFlags& flags) {
  cluster::ClusterFlags source;
  source.spec = flags.Text("--spec");
  source.job = "worker";
  source.task = flags.Number("--task", 0);
  LS_ASSIGN_OR_RETURN(const cluster::Resolution here, cluster::ResolveCluster({}, source));
  cluster::ServerDef::Options options;
  options.job = here.task->job;
  options.index = here.task->index;
  options.transport = flags.Text("--transport", "auto");
  if (flags.Has("--data-ports")) {
    LS_ASSIGN_OR_RETURN(options.data_ports, cluster::PortRange::Parse(flags.Text("--data-ports")));
  }
  return cluster::ServerDef::Create(here.cluster, options);
}

// Doubles x at every task, one after another, and at the first one again.
Status Lead(const cluster::Server& server, const HostFlags& flags) {
  LS_ASSIGN_OR_RETURN(const int tasks, server.def().cluster().num_tasks("worker"));
  const int elements = flags.Number("--elements", 100'000);
  Graph graph(op::Catalog());
  Builder b(graph);
  Value feed;
  Value value;
  for (int hop = 0; hop <= tasks; ++hop) {
    const DeviceScope device(b, fmt::format("/job:worker/task:{}", hop % tasks));
    if (hop == 0) {
      feed = op::Placeholder(b, DType::kFloat32, {elements}, "x");
      value = feed;
    }
    value = op::Add(b, value, value);
  }
  LS_TRY(b.status());
  LS_ASSIGN_OR_RETURN(const auto session, cluster::RemoteSession::Create(graph, server, {}));
  LS_ASSIGN_OR_RETURN(const Tensor x, Tensor::Zeros(DType::kFloat32, {elements}));
  const auto factor = static_cast<float>(2 << tasks);
  for (int step = 0; step < flags.Number("--steps", 10); ++step) {
    std::fill(x.values<float>().begin(), x.values<float>().end(), static_cast<float>(step + 1));
    LS_ASSIGN_OR_RETURN(const std::vector<Tensor> out, session->Run({{feed, x}}, {value}));
    const auto results = out[0].values<float>();
    const float expected = factor * static_cast<float>(step + 1);
    if (!std::all_of(results.begin(), results.end(),
                     [expected](float result) { return result == expected; })) {
      return Internal(fmt::format("step {} gave a wrong result", step));
    }
  }
  fmt::print("all steps right\n");
  std::fflush(stdout);
  return OkStatus();
}

Status Run(const HostFlags& flags) {
  LS_ASSIGN_OR_RETURN(cluster::ServerDef def, Describe(flags));
  cluster::SecurityFlags security_flags;
  security_flags.insecure = flags.Has("--insecure");
  LS_ASSIGN_OR_RETURN(cluster::SecurityOptions security,
                      cluster::ReadSecurity(security_flags, cluster::CollectVariables(environ)));
  const bool chief = def.number() == 0;
  Log log(std::cerr, LogLevel::kInfo);
  LS_ASSIGN_OR_RETURN(
      const auto server,
      cluster::Server::Create(std::move(def),
                              {.security = std::move(security),
                               .heartbeat = milliseconds(1000 * flags.Number("--heartbeat", 5)),
                               .log = &log}));
  LS_TRY(server->Start(Deadline::After(milliseconds(30'000))));
  const Status status = chief ? Lead(*server, flags) : server->Join(Deadline::Infinite());
  const Status stopped = server->Stop(Deadline::After(milliseconds(10'000)), status);
  return status.ok() ? stopped : status;
}

}  // namespace

int main(int argc, char** argv) {
  const HostFlags flags(argc, argv);
  if (!flags.Has("--spec")) {
    fmt::print(stderr, "--spec is missing\n");
    return 2;
  }
  const Status status = Run(flags);
  if (!status.ok()) {
    fmt::print(stderr, "{}\n", status.ToString());
  }
  return status.ok() ? 0 : 3;
}
