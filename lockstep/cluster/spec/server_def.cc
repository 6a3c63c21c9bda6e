#include "lockstep/cluster/spec/server_def.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "lockstep/base/quote.h"
#include "lockstep/base/suggest.h"

namespace lockstep::cluster {
namespace {

constexpr std::array<std::string_view, 5> kTransports = {"auto", "sim", "shm", "ucx", "grpc"};
constexpr int kMaxPort = 65535;

Result<TaskId> InferTask(const ClusterSpec& cluster, const ServerDef::Options& options) {
  if (cluster.empty()) {
    return InvalidArgument("the cluster has no tasks");
  }
  TaskId task;
  const std::vector<std::string> jobs = cluster.jobs();
  if (options.job) {
    task.job = *options.job;
  } else if (jobs.size() == 1) {
    task.job = jobs[0];
  } else {
    return InvalidArgument(
        fmt::format("the cluster has several jobs ({}): the job of this task must be given",
                    fmt::join(jobs, ", ")));
  }
  LS_ASSIGN_OR_RETURN(const std::vector<int> indices, cluster.task_indices(task.job));
  if (options.index) {
    task.index = *options.index;
  } else if (indices.size() == 1) {
    task.index = indices[0];
  } else {
    return InvalidArgument(fmt::format("/job:{} has {} tasks: the index of this task must be given",
                                       task.job, indices.size()));
  }
  return task;
}

Status CheckOptions(const ServerDef::Options& options) {
  const std::string& transport = options.transport;
  if (std::find(kTransports.begin(), kTransports.end(), transport) == kTransports.end()) {
    return InvalidArgument(fmt::format("unknown transport {}{}: allowed are {}", Quoted(transport),
                                       DidYouMean(transport, kTransports),
                                       fmt::join(kTransports, ", ")));
  }
  if (options.port < 0 || options.port > kMaxPort) {
    return InvalidArgument(fmt::format(
        "port {}: allowed are 1 to {}, and 0 for the port in the cluster", options.port, kMaxPort));
  }
  const PortRange& data = options.data_ports;
  if (!(data == PortRange()) &&
      (data.first < 1 || data.last < data.first || data.last > kMaxPort)) {
    return InvalidArgument(fmt::format(
        "data ports from {} to {}: allowed are ports from 1 to {}, the smaller one first",
        data.first, data.last, kMaxPort));
  }
  if (options.session.operation_timeout_ms < 0) {
    return InvalidArgument(
        fmt::format("an operation timeout of {} ms: allowed are 1 and more, and "
                    "0 for no limit",
                    options.session.operation_timeout_ms));
  }
  return OkStatus();
}

// -1 if it is no port.
int ParsePort(std::string_view text) {
  int port = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  const bool whole = error == std::errc() && end == text.data() + text.size() && text[0] != '-';
  return whole && port >= 1 && port <= kMaxPort ? port : -1;
}

}  // namespace

Result<PortRange> PortRange::Parse(std::string_view text) {
  const size_t dash = text.find('-');
  PortRange range;
  range.first = text.empty() ? -1 : ParsePort(text.substr(0, dash));
  range.last = range.first;
  if (dash != std::string_view::npos) {
    range.last = dash + 1 < text.size() ? ParsePort(text.substr(dash + 1)) : -1;
  }
  if (range.first < 0 || range.last < range.first) {
    return InvalidArgument(fmt::format(
        "{} is no range of ports: expected a port from 1 to {}, or two with a dash between, the "
        "smaller one first",
        Quoted(text), kMaxPort));
  }
  return range;
}

Result<ServerDef> ServerDef::Create(ClusterSpec cluster, Options options) {
  LS_TRY(CheckOptions(options));
  LS_ASSIGN_OR_RETURN(TaskId task, InferTask(cluster, options));
  LS_ASSIGN_OR_RETURN(net::Address address, cluster.task_address(task));
  if (options.port != 0) {
    address = address.WithPort(options.port);
  }
  const int number = cluster.NumberOf(task).value();
  ServerDef def(std::move(cluster), std::move(task), number, std::move(address));
  for (const std::string& filter : options.device_filters) {
    Result<DeviceName> name = DeviceName::Parse(filter);
    if (!name.ok()) {
      return name.status().With("device filter");
    }
    def.device_filters_.push_back(*name);
  }
  def.transport_ = std::move(options.transport);
  def.data_ports_ = options.data_ports;
  def.session_ = options.session;
  return def;
}

std::vector<int> ServerDef::VisibleTasks() const {
  std::vector<int> visible;
  const std::vector<ClusterSpec::Task>& tasks = cluster_.tasks();
  for (size_t i = 0; i < tasks.size(); ++i) {
    DeviceName name;
    name.job = tasks[i].id.job;
    name.replica = 0;
    name.task = tasks[i].id.index;
    const bool passes =
        device_filters_.empty() || static_cast<int>(i) == number_ ||
        std::any_of(device_filters_.begin(), device_filters_.end(),
                    [&](const DeviceName& filter) { return filter.CompatibleWith(name); });
    if (passes) {
      visible.push_back(static_cast<int>(i));
    }
  }
  return visible;
}

}  // namespace lockstep::cluster
