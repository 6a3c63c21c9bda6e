#include "lockstep/cluster/worker/worker.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/cluster/worker/step_link.h"
#include "lockstep/graph/device_name.h"

namespace lockstep::cluster {
namespace {

// Ends that were announced for runs that have not begun.
constexpr size_t kMaxDoomed = 1000;
// A run that is so far behind the others of its graph will not come.
constexpr size_t kMaxEndedBeyond = 1000;

std::string IsolatedContainer(uint64_t session) {
  return std::string(1, '\0') + fmt::format("session {:x}", session);
}

Status AddPositions(const std::vector<int>& positions, int limit, std::string_view what,
                    std::vector<int>& all) {
  for (const int position : positions) {
    if (position < 0 || position >= limit) {
      return InvalidArgument(
          fmt::format("position {} among {} {} of a graph", position, limit, what));
    }
    all.push_back(position);
  }
  return OkStatus();
}

}  // namespace

Result<std::shared_ptr<Worker>> Worker::Create(WorkerOptions options, uint64_t incarnation,
                                               std::shared_ptr<net::Transport> transport) {
  const TaskId& id = options.cluster.tasks()[static_cast<size_t>(options.number)].id;
  LS_ASSIGN_OR_RETURN(
      std::unique_ptr<exec::PartRunner> runner,
      exec::PartRunner::Create({.task = fmt::format("/job:{}/replica:0/task:{}", id.job, id.index),
                                .devices = options.devices,
                                .threads_per_device = options.threads_per_device}));
  return std::make_shared<Worker>(std::move(options), incarnation, std::move(transport),
                                  std::move(runner));
}

Worker::Worker(WorkerOptions options, uint64_t incarnation,
               std::shared_ptr<net::Transport> transport, std::unique_ptr<exec::PartRunner> runner)
    : options_(std::move(options)),
      incarnation_(incarnation),
      transport_(std::move(transport)),
      runner_(std::move(runner)) {}

Worker::~Worker() {
  Stop(Unavailable(fmt::format("{} has stopped", Name())));
  const MutexLock lock(mu_);
  while (runs_ > 0) {
    // They were told to end.
    run_ended_.WaitUntil(mu_, Deadline::Infinite());
  }
}

std::string Worker::Name() const {
  return options_.cluster.tasks()[static_cast<size_t>(options_.number)].id.ToString();
}

std::vector<pass::DeviceAttributes> Worker::Devices() const {
  std::vector<pass::DeviceAttributes> devices;
  for (const std::string& name : runner_->devices()) {
    devices.push_back(
        {.name = name, .kind = "CPU", .memory_limit_bytes = 0, .incarnation = incarnation_});
  }
  return devices;
}

Status Worker::CreateSession(uint64_t session, const SessionPlace& place) {
  const MutexLock lock(mu_);
  LS_TRY(stopped_);
  // No user's name has a zero byte (the master refuses it), so these are nobody else's.
  sessions_.emplace(session, place.isolate ? IsolatedContainer(session) : place.container);
  return OkStatus();
}

void Worker::Forget(uint64_t scope, Graph& graph) {
  (void)runner_->Deregister(graph.handle);
  graph.forgotten = true;
  if (graph.running.empty()) {
    transport_->EndScope(scope);
  }
}

void Worker::ForgetGraphs(const std::function<bool(const Graph&)>& gone) {
  for (auto it = graphs_.begin(); it != graphs_.end();) {
    if (gone(*it->second)) {
      Forget(it->first, *it->second);
      it = graphs_.erase(it);
    } else {
      ++it;
    }
  }
}

void Worker::DeleteSession(uint64_t session) {
  const MutexLock lock(mu_);
  ForgetGraphs([&](const Graph& graph) { return graph.session == session; });
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) {
    return;
  }
  if (found->second == IsolatedContainer(session)) {
    runner_->Reset({&found->second, 1});
  }
  sessions_.erase(found);
}

Result<exec::PeerNumber> Worker::PeerOf(const std::string& device) const {
  LS_ASSIGN_OR_RETURN(const DeviceName name, DeviceName::Parse(device));
  const std::optional<int> number =
      options_.cluster.NumberOf({name.job.value_or(""), name.task.value_or(-1)});
  if (!number) {
    return InvalidArgument(fmt::format("the cluster has no task for '{}'", device));
  }
  return *number == options_.number ? exec::kThisTask : *number;
}

Status Worker::RegisterGraph(const WorkerGraph& graph) {
  constexpr int kMaxValues = 1'000'000;
  if (graph.incarnation != incarnation_) {
    return Aborted(fmt::format("{} has restarted since the session began", Name()));
  }
  if (graph.num_feeds < 0 || graph.num_feeds > kMaxValues || graph.num_fetches < 0 ||
      graph.num_fetches > kMaxValues) {
    return InvalidArgument(
        fmt::format("a graph with {} feeds and {} fetches", graph.num_feeds, graph.num_fetches));
  }
  auto made = std::make_shared<Graph>();
  made->session = graph.session;
  made->num_feeds = graph.num_feeds;
  made->num_fetches = graph.num_fetches;
  {
    const MutexLock lock(mu_);
    LS_TRY(stopped_);
    const auto session = sessions_.find(graph.session);
    if (session == sessions_.end()) {
      return Aborted(
          fmt::format("session {:x} is not known at {}: it was closed, or the task has "
                      "restarted",
                      graph.session, Name()));
    }
    made->container = session->second;
    if (graphs_.find(graph.scope) != graphs_.end()) {
      return AlreadyExists(fmt::format("graph {:x} is registered", graph.scope));
    }
  }
  exec::PartRegistration registration{
      .parts = {}, .container = made->container, .scope = graph.scope};
  for (const WorkerPart& part : graph.parts) {
    registration.parts.push_back({part.device, part.graph});
    LS_TRY(AddPositions(part.feeds, graph.num_feeds, "feeds", made->feeds));
    LS_TRY(AddPositions(part.fetches, graph.num_fetches, "fetches", made->fetches));
  }
  LS_ASSIGN_OR_RETURN(made->handle,
                      runner_->Register(registration, [this](const std::string& device) {
                        return PeerOf(device);
                      }));
  const MutexLock lock(mu_);
  graphs_[graph.scope] = std::move(made);
  return OkStatus();
}

void Worker::DeregisterGraph(uint64_t scope) {
  const MutexLock lock(mu_);
  const auto found = graphs_.find(scope);
  if (found != graphs_.end()) {
    Forget(scope, *found->second);
    graphs_.erase(found);
  }
}

Result<std::shared_ptr<Worker::Graph>> Worker::FindGraph(uint64_t scope) const {
  const auto found = graphs_.find(scope);
  if (found == graphs_.end()) {
    return Aborted(
        fmt::format("graph {:x} is not known at {}: its session was closed, or the task "
                    "has restarted",
                    scope, Name()));
  }
  return found->second;
}

Status Worker::BeginRun(const WorkerRun& run, Graph& graph, exec::Cancellation& cancellation) {
  const MutexLock lock(mu_);
  LS_TRY(graph.forgotten ? Aborted(fmt::format("graph {:x} is not known any more", run.scope))
                         : stopped_);
  const auto doomed = graph.doomed.find(run.step);
  if (doomed != graph.doomed.end()) {
    return doomed->second;
  }
  if (graph.IsOver(run.step) || !graph.running.emplace(run.step, &cancellation).second) {
    return Aborted(fmt::format("step {} of graph {:x} has begun before", run.step, run.scope));
  }
  ++runs_;
  return OkStatus();
}

void Worker::EndRun(const WorkerRun& run, Graph& graph) {
  rendezvous_.Cleanup(run.scope, run.step);
  transport_->EndStep(run.scope, run.step);
  const MutexLock lock(mu_);
  graph.running.erase(run.step);
  graph.ended_beyond.insert(run.step);
  while (!graph.ended_beyond.empty() && (*graph.ended_beyond.begin() == graph.ended + 1 ||
                                         graph.ended_beyond.size() > kMaxEndedBeyond)) {
    graph.ended = *graph.ended_beyond.begin();
    graph.ended_beyond.erase(graph.ended_beyond.begin());
  }
  graph.doomed.erase(graph.doomed.begin(), graph.doomed.upper_bound(graph.ended));
  if (graph.forgotten && graph.running.empty()) {
    transport_->EndScope(run.scope);
  }
  --runs_;
  run_ended_.NotifyAll();
}

Result<std::vector<Tensor>> Worker::RunGraph(const WorkerRun& run, std::span<const Tensor> feeds,
                                             exec::Cancellation& cancellation) {
  std::shared_ptr<Graph> graph;
  {
    const MutexLock lock(mu_);
    LS_ASSIGN_OR_RETURN(graph, FindGraph(run.scope));
  }
  if (static_cast<int>(feeds.size()) != graph->num_feeds) {
    return InvalidArgument(fmt::format("graph {:x} at {} takes {} feeds, found {}", run.scope,
                                       Name(), graph->num_feeds, feeds.size()));
  }
  LS_TRY(BeginRun(run, *graph, cancellation));
  std::vector<Tensor> part_feeds;
  for (const int position : graph->feeds) {
    part_feeds.push_back(feeds[static_cast<size_t>(position)]);
  }
  std::vector<Tensor> part_fetches(graph->fetches.size());
  Status status;
  {
    StepLink link(rendezvous_, *transport_, run.deadline);
    status = runner_->Run(graph->handle,
                          {.step = run.step,
                           .info = run.info,
                           .rendezvous = &link,
                           .deadline = run.deadline,
                           .cancellation = &cancellation},
                          part_feeds, part_fetches);
  }
  EndRun(run, *graph);
  if (!status.ok()) {
    return status.With(Name());
  }
  std::vector<Tensor> fetches(static_cast<size_t>(graph->num_fetches));
  for (size_t i = 0; i < part_fetches.size(); ++i) {
    fetches[static_cast<size_t>(graph->fetches[i])] = std::move(part_fetches[i]);
  }
  return fetches;
}

void Worker::CleanupGraph(uint64_t scope, uint64_t step, const Status& why) {
  {
    const MutexLock lock(mu_);
    const auto found = graphs_.find(scope);
    if (found == graphs_.end() || found->second->IsOver(step)) {
      return;
    }
    Graph& graph = *found->second;
    const auto running = graph.running.find(step);
    if (running != graph.running.end()) {
      running->second->Cancel(why);
      return;
    }
    if (graph.doomed.size() >= kMaxDoomed) {
      graph.doomed.erase(graph.doomed.begin());
    }
    graph.doomed[step] = why;
    graph.ended_beyond.insert(step);
  }
  // What came for it already is of no use.
  transport_->EndStep(scope, step);
}

void Worker::CleanupAll(const std::vector<std::string>& containers) {
  const auto named = [&](const std::string& container) {
    return containers.empty() ||
           std::find(containers.begin(), containers.end(), container) != containers.end();
  };
  const MutexLock lock(mu_);
  ForgetGraphs([&](const Graph& graph) { return named(graph.container); });
  std::erase_if(sessions_, [&](const auto& entry) { return named(entry.second); });
  runner_->Reset(containers);
}

void Worker::AbortRuns(const Status& why) {
  const MutexLock lock(mu_);
  for (const auto& [scope, graph] : graphs_) {
    for (const auto& [step, cancellation] : graph->running) {
      cancellation->Cancel(why);
    }
  }
}

void Worker::Stop(const Status& why) {
  {
    const MutexLock lock(mu_);
    stopped_ = stopped_.ok() ? why : stopped_;
  }
  AbortRuns(why);
}

std::shared_ptr<exec::VariableStore> Worker::container(const std::string& name) {
  return runner_->Container(name);
}

size_t Worker::num_graphs() const {
  const MutexLock lock(mu_);
  return graphs_.size();
}

}  // namespace lockstep::cluster
