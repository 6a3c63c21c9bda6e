#include "lockstep/cli/bench_cluster.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "lockstep/base/descriptor.h"
#include "lockstep/cluster/client/remote_session.h"
#include "lockstep/cluster/server/server.h"
#include "lockstep/cluster/testing/local_cluster.h"
#include "lockstep/graph/builder.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/catalog.h"
#include "lockstep/op/placeholder.h"

namespace lockstep::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Descriptor = lockstep::internal::Descriptor;
using std::chrono::milliseconds;

constexpr milliseconds kTimeout{60'000};

// In seconds; what the chief's process writes to the one that prints.
struct Figures {
  double first_step = 0;
  double p50 = 0;
  double p99 = 0;
  double mean = 0;
};

double Seconds(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Result<std::unique_ptr<cluster::Server>> StartServer(const cluster::ClusterSpec& spec, int task,
                                                     const std::string& link) {
  cluster::ServerDef::Options options;
  options.job = "worker";
  options.index = task;
  options.transport = link;
  LS_ASSIGN_OR_RETURN(cluster::ServerDef def, cluster::ServerDef::Create(spec, options));
  LS_ASSIGN_OR_RETURN(auto server, cluster::Server::Create(std::move(def), {}));
  LS_TRY(server->Start(Deadline::After(kTimeout)));
  return server;
}

Status ServeTask(const cluster::ClusterSpec& spec, int task, const std::string& link) {
  LS_ASSIGN_OR_RETURN(const auto server, StartServer(spec, task, link));
  LS_TRY(server->Join(Deadline::Infinite()));
  return server->Stop(Deadline::After(kTimeout));
}

// Runs `work` in a process that ends with this one.
template <class Work>
Result<pid_t> Fork(const Work& work) {
  const pid_t child = fork();
  if (child < 0) {
    return ResourceExhausted(fmt::format("fork: {}", std::strerror(errno)));
  }
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const Status status = work();
    if (!status.ok()) {
      fmt::print(stderr, "{}\n", status.ToString());
    }
    _exit(status.ok() ? 0 : 1);
  }
  return child;
}

Result<Figures> MeasureSteps(const cluster::Server& server, const BenchClusterFlags& flags,
                             Clock::time_point start) {
  Graph graph(op::Catalog());
  Builder b(graph);
  Value value;
  Value feed;
  for (int hop = 0; hop <= flags.tasks; ++hop) {
    DeviceScope device(b, fmt::format("/job:worker/task:{}", hop % flags.tasks));
    if (hop == 0) {
      feed = op::Placeholder(b, DType::kFloat32, {flags.elements}, "x");
      value = feed;
    }
    value = op::Add(b, value, value);
  }
  LS_TRY(b.status());
  LS_ASSIGN_OR_RETURN(const auto session, cluster::RemoteSession::Create(graph, server, {}));
  LS_ASSIGN_OR_RETURN(auto callable, session->MakeCallable({feed}, {value}));
  LS_ASSIGN_OR_RETURN(const Tensor ones, Tensor::Zeros(DType::kFloat32, {flags.elements}));
  std::fill(ones.values<float>().begin(), ones.values<float>().end(), 1.0F);
  const auto expected = static_cast<float>(uint64_t{2} << flags.tasks);
  Figures figures;
  std::vector<double> times;
  for (int64_t step = 0; step < flags.warmup + flags.steps; ++step) {
    const auto begin = Clock::now();
    LS_ASSIGN_OR_RETURN(const std::vector<Tensor> out, callable.Run({ones}));
    const double seconds = Seconds(begin);
    if (out[0].values<float>().back() != expected) {
      return Internal("a step gave a wrong result");
    }
    if (step == 0) {
      figures.first_step = Seconds(start);
    }
    if (step >= flags.warmup) {
      times.push_back(seconds);
      figures.mean += seconds / static_cast<double>(flags.steps);
    }
  }
  std::sort(times.begin(), times.end());
  figures.p50 = times[times.size() / 2];
  figures.p99 = times[times.size() * 99 / 100];
  return figures;
}

// The chief's process: starts the other tasks, and measures.
Status Lead(const BenchClusterFlags& flags, const std::string& link, int out) {
  const cluster::ClusterSpec spec = cluster::LocalSpec({{"worker", flags.tasks}});
  const auto start = Clock::now();
  // Before there is any thread in this process.
  for (int task = 1; task < flags.tasks; ++task) {
    LS_TRY(Fork([&] { return ServeTask(spec, task, link); }).status());
  }
  LS_ASSIGN_OR_RETURN(const auto server, StartServer(spec, 0, link));
  LS_ASSIGN_OR_RETURN(const Figures figures, MeasureSteps(*server, flags, start));
  LS_TRY(lockstep::internal::WriteAll(out, "the figures", 0, &figures, sizeof(figures)));
  return server->Stop(Deadline::After(kTimeout));
}

Result<Figures> RunLink(const BenchClusterFlags& flags, const std::string& link) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return Internal(fmt::format("pipe: {}", std::strerror(errno)));
  }
  const Descriptor in(ends[0]);
  Descriptor out(ends[1]);
  LS_ASSIGN_OR_RETURN(const pid_t child, Fork([&] { return Lead(flags, link, out.get()); }));
  out.Close();
  Figures figures;
  const ssize_t size = read(in.get(), &figures, sizeof(figures));
  int ended = 0;
  waitpid(child, &ended, 0);
  if (size != sizeof(figures) || ended != 0) {
    return Unavailable("the measuring process failed");
  }
  return figures;
}

void PrintTable(const std::vector<std::pair<std::string, Figures>>& all) {
  fmt::print("{:<10}{:>14}{:>14}{:>14}{:>18}\n", "link", "p50, us", "p99, us", "mean, us",
             "first step, ms");
  for (const auto& [link, figures] : all) {
    fmt::print("{:<10}{:>14.1f}{:>14.1f}{:>14.1f}{:>18.1f}\n", link, 1e6 * figures.p50,
               1e6 * figures.p99, 1e6 * figures.mean, 1e3 * figures.first_step);
  }
}

void PrintJson(const std::vector<std::pair<std::string, Figures>>& all) {
  nlohmann::ordered_json json;
  for (const auto& [link, figures] : all) {
    json[link]["step_p50_us"] = 1e6 * figures.p50;
    json[link]["step_p99_us"] = 1e6 * figures.p99;
    json[link]["step_mean_us"] = 1e6 * figures.mean;
    json[link]["first_step_ms"] = 1e3 * figures.first_step;
  }
  fmt::print("{}\n", json.dump());
}

}  // namespace

Outcome BenchCluster(const BenchClusterFlags& flags) {
  std::vector<std::string> links = flags.links;
  if (links.empty()) {
    links = {"shm", "ucx", "grpc"};
  }
  std::vector<std::pair<std::string, Figures>> all;
  for (const std::string& link : links) {
    const Result<Figures> figures = RunLink(flags, link);
    if (!figures.ok()) {
      return Fail(ExitCode::kOther, figures.status().With("link " + link));
    }
    all.emplace_back(link, *figures);
  }
  flags.json ? PrintJson(all) : PrintTable(all);
  return Done();
}

}  // namespace lockstep::cli
