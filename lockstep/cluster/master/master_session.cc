#include "lockstep/cluster/master/master_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "lockstep/base/hmac.h"
#include "lockstep/cluster/internal/node_names.h"
#include "lockstep/exec/step_status.h"
#include "lockstep/pass/serialize_part.h"

namespace lockstep::cluster {
namespace {

using internal::NamesOf;
using std::chrono::milliseconds;

// Registrations of one signature with different shapes; the oldest go.
constexpr size_t kMaxShapes = 16;
// How often broken links are made again before a step gives up, and the time of the first attempt,
// which doubles: more than a silent peer takes to be noticed at the other end.
constexpr int kLinkAttempts = 6;
constexpr milliseconds kFirstLinkAttempt{250};

std::string KeyOf(const SignatureNames& names, const std::vector<std::string>& done) {
  return fmt::format("{}>{}>{}>{}", fmt::join(names.feeds, ","), fmt::join(names.fetches, ","),
                     fmt::join(names.targets, ","), fmt::join(done, ","));
}

Result<std::vector<Value>> ValuesOf(const Graph& graph, const std::vector<std::string>& names) {
  std::vector<Value> values;
  for (const std::string& name : names) {
    LS_ASSIGN_OR_RETURN(const Value value, graph.FindValue(name));
    values.push_back(value);
  }
  return values;
}

Result<std::vector<Node*>> NodesOf(const Graph& graph, const std::vector<std::string>& names) {
  std::vector<Node*> nodes;
  for (const std::string& name : names) {
    Node* node = graph.FindNode(name);
    if (node == nullptr) {
      return NotFound(fmt::format("the graph has no node '{}' to run", name));
    }
    nodes.push_back(node);
  }
  return nodes;
}

struct ResolvedSignature {
  std::vector<pass::Feed> feeds;
  std::vector<Value> fetches;
  std::vector<Node*> targets;
};

Result<ResolvedSignature> Resolve(const Graph& graph, const SignatureNames& names,
                                  const std::vector<Tensor>& feeds) {
  if (names.feeds.size() != feeds.size()) {
    return InvalidArgument(fmt::format("{} tensors are fed, the signature has {} feeds",
                                       feeds.size(), names.feeds.size()));
  }
  ResolvedSignature resolved;
  for (size_t i = 0; i < feeds.size(); ++i) {
    LS_ASSIGN_OR_RETURN(const Value value, graph.FindValue(names.feeds[i]));
    const Tensor& feed = feeds[i];
    if (!feed.has_value() || feed.dtype() != value.dtype() ||
        !feed.shape().CompatibleWith(value.shape())) {
      return InvalidArgument(fmt::format(
          "the feed of {} is {}, expected {}", value.node->Describe(),
          feed.has_value() ? fmt::format("{} {}", DTypeName(feed.dtype()), feed.shape().ToString())
                           : std::string("no tensor"),
          value.type().ToString()));
    }
    if (std::count(names.feeds.begin(), names.feeds.end(), names.feeds[i]) > 1) {
      return InvalidArgument(fmt::format("{} is fed twice", value.node->Describe()));
    }
    resolved.feeds.push_back({value, feed.dtype(), feed.shape()});
  }
  LS_ASSIGN_OR_RETURN(resolved.fetches, ValuesOf(graph, names.fetches));
  LS_ASSIGN_OR_RETURN(resolved.targets, NodesOf(graph, names.targets));
  return resolved;
}

bool SameShapes(const std::vector<Shape>& shapes, const std::vector<Tensor>& feeds) {
  for (size_t i = 0; i < feeds.size(); ++i) {
    if (i >= shapes.size() || !feeds[i].has_value() || !(feeds[i].shape() == shapes[i])) {
      return false;
    }
  }
  return shapes.size() == feeds.size();
}

// The place of `position` among those of a task, which is made if need be.
int LocalPosition(std::vector<int>& positions, int position) {
  const auto found = std::find(positions.begin(), positions.end(), position);
  if (found != positions.end()) {
    return static_cast<int>(found - positions.begin());
  }
  positions.push_back(position);
  return static_cast<int>(positions.size()) - 1;
}

// Calls all at once. The first error that is no consequence of another one.
Status CallAll(const std::vector<std::function<Status()>>& calls) {
  exec::StepStatus status;
  std::vector<std::thread> threads;
  for (size_t i = 1; i < calls.size(); ++i) {
    threads.emplace_back([&status, &call = calls[i]] { status.Add(call()); });
  }
  if (!calls.empty()) {
    status.Add(calls[0]());
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return status.Get();
}

}  // namespace

MasterSession::MasterSession(uint64_t id, SessionConfig config, MasterSessionEnv env)
    : id_(id), config_(std::move(config)), env_(std::move(env)) {}

Result<uint64_t> MasterSession::SetGraph(std::unique_ptr<Graph> graph, uint64_t version) {
  const MutexLock lock(mu_);
  if (version != version_) {
    return Aborted(fmt::format("version {} of the session's graph is to be extended, it has {}",
                               version, version_));
  }
  const pass::Placement* earlier = nullptr;
  if (state_.graph != nullptr) {
    const auto before = state_.graph->nodes();
    const auto after = graph->nodes();
    for (size_t i = 0; i < before.size(); ++i) {
      if (i >= after.size() || after[i]->name != before[i]->name || after[i]->op != before[i]->op) {
        return InvalidArgument(
            fmt::format("an extended graph begins with all nodes of the one before: node {} was {}",
                        i, before[i]->Describe()));
      }
    }
    earlier = &state_.placement;
  }
  LS_ASSIGN_OR_RETURN(pass::Placement placement,
                      pass::Place(*graph, env_.devices, {.soft = config_.soft_placement}, earlier));
  if (config_.log_placement && env_.log != nullptr) {
    const size_t known = state_.graph == nullptr ? 0 : state_.graph->nodes().size();
    for (size_t i = known; i < placement.devices.size(); ++i) {
      const Node& node = *graph->nodes()[i];
      env_.log->Info(fmt::format("{} ({}): {}", node.name, node.op->name, placement.devices[i]));
    }
  }
  Deregister(state_);
  partial_runs_.Clear();
  state_.graph = std::move(graph);
  state_.placement = std::move(placement);
  state_.registered.clear();
  return ++version_;
}

void MasterSession::Deregister(GraphState& state) {
  for (const auto& [key, list] : state.registered) {
    for (const auto& registered : list) {
      for (const TaskShare& share : registered->shares) {
        share.stub->DeregisterGraph(registered->scope);
      }
    }
  }
}

Result<std::shared_ptr<MasterSession::Registered>> MasterSession::Find(
    const Cut& cut, const std::vector<Tensor>& feeds, const Deadline& deadline) {
  const MutexLock lock(mu_);
  if (closed_) {
    return FailedPrecondition("the session is closed");
  }
  const auto found = state_.registered.find(KeyOf(cut.names, cut.done));
  if (found != state_.registered.end()) {
    for (const auto& registered : found->second) {
      if (SameShapes(registered->shapes, feeds)) {
        return registered;
      }
    }
  }
  return Register(cut, feeds, deadline);
}

Result<std::shared_ptr<MasterSession::Registered>> MasterSession::Register(
    const Cut& cut, const std::vector<Tensor>& feeds, const Deadline& deadline) {
  LS_ASSIGN_OR_RETURN(const ResolvedSignature resolved, Resolve(*state_.graph, cut.names, feeds));
  LS_ASSIGN_OR_RETURN(const std::vector<Node*> done, NodesOf(*state_.graph, cut.done));
  LS_ASSIGN_OR_RETURN(pass::SpecializedGraph specialized,
                      pass::Specialize(*state_.graph, resolved.feeds, resolved.fetches,
                                       resolved.targets, state_.placement.devices, done));
  auto registered = std::make_shared<Registered>();
  LS_ASSIGN_OR_RETURN(registered->scope, RandomNonZero());
  for (const Tensor& feed : feeds) {
    registered->shapes.push_back(feed.shape());
  }
  const std::string key = KeyOf(cut.names, cut.done);
  const Status status = RegisterWithTasks(std::move(specialized), *registered, deadline);
  if (!status.ok()) {
    for (const TaskShare& share : registered->shares) {
      share.stub->DeregisterGraph(registered->scope);
    }
    return status;
  }
  std::vector<std::shared_ptr<Registered>>& list = state_.registered[key];
  if (list.size() >= kMaxShapes) {
    // Those that run are held by their runs.
    const auto idle = std::find_if(list.begin(), list.end(),
                                   [](const auto& entry) { return entry.use_count() == 1; });
    if (idle != list.end()) {
      for (const TaskShare& share : (*idle)->shares) {
        share.stub->DeregisterGraph((*idle)->scope);
      }
      list.erase(idle);
    }
  }
  list.push_back(registered);
  return registered;
}

Result<int> MasterSession::TaskOf(const std::string& device) const {
  LS_ASSIGN_OR_RETURN(const DeviceName name, DeviceName::Parse(device));
  const std::optional<int> number =
      env_.cluster.NumberOf({name.job.value_or(""), name.task.value_or(-1)});
  if (!number || env_.workers.find(*number) == env_.workers.end()) {
    return InvalidArgument(fmt::format("this session has no task for '{}'", device));
  }
  return *number;
}

Result<std::map<int, std::set<int>>> MasterSession::PeersOf(
    const pass::PartitionedGraph& graph) const {
  std::map<int, std::set<int>> peers;
  const auto add = [&peers](int a, int b) {
    if (a != b) {
      peers[a].insert(b);
      peers[b].insert(a);
    }
  };
  for (const pass::Part& part : graph.parts) {
    LS_ASSIGN_OR_RETURN(const int number, TaskOf(part.device));
    add(env_.number, number);
  }
  for (const pass::Transfer& transfer : graph.transfers) {
    LS_ASSIGN_OR_RETURN(const int source, TaskOf(transfer.source));
    LS_ASSIGN_OR_RETURN(const int destination, TaskOf(transfer.destination));
    add(source, destination);
  }
  return peers;
}

Status MasterSession::RegisterWithTasks(pass::SpecializedGraph graph, Registered& registered,
                                        const Deadline& deadline) {
  LS_ASSIGN_OR_RETURN(const pass::PartitionedGraph partitioned, pass::Partition(graph, {}));
  std::map<int, WorkerGraph> by_task;
  std::map<int, TaskShare> shares;
  for (const pass::Part& part : partitioned.parts) {
    LS_ASSIGN_OR_RETURN(const int number, TaskOf(part.device));
    WorkerPart made;
    made.device = part.device;
    LS_ASSIGN_OR_RETURN(made.graph, pass::SerializePart(part));
    TaskShare& share = shares[number];
    for (const int position : part.feeds) {
      made.feeds.push_back(LocalPosition(share.feeds, position));
    }
    for (const int position : part.fetches) {
      made.fetches.push_back(LocalPosition(share.fetches, position));
    }
    by_task[number].parts.push_back(std::move(made));
  }
  for (auto& [number, share] : shares) {
    share.number = number;
    share.stub = env_.workers.at(number);
    WorkerGraph& worker_graph = by_task[number];
    worker_graph.session = id_;
    worker_graph.scope = registered.scope;
    worker_graph.incarnation = env_.incarnations.at(number);
    worker_graph.num_feeds = static_cast<int>(share.feeds.size());
    worker_graph.num_fetches = static_cast<int>(share.fetches.size());
    // This process's own part runs on the thread that starts the others, so after them.
    if (number == env_.number) {
      registered.shares.push_back(share);
    } else {
      registered.shares.insert(registered.shares.begin(), share);
    }
  }
  std::vector<std::function<Status()>> calls;
  for (const auto& [number, worker_graph] : by_task) {
    calls.emplace_back([&stub = *env_.workers.at(number), &worker_graph = worker_graph, &deadline] {
      return stub.RegisterGraph(worker_graph, deadline);
    });
  }
  LS_TRY(CallAll(calls));
  LS_ASSIGN_OR_RETURN(const auto peers, PeersOf(partitioned));
  for (const auto& [number, others] : peers) {
    TaskPeers& added = registered.peers.emplace_back();
    added.stub = env_.workers.at(number);
    for (const int other : others) {
      added.peers.push_back({other, env_.incarnations.at(other)});
    }
  }
  registered.linked_at = broken_links_.load();
  return Link(registered, deadline);
}

Status MasterSession::Link(const Registered& registered, const Deadline& deadline) {
  std::vector<std::function<Status()>> calls;
  for (const TaskPeers& task : registered.peers) {
    calls.emplace_back([&task, &deadline] { return task.stub->Connect(task.peers, deadline); });
  }
  return CallAll(calls);
}

Status MasterSession::LinkAgain(Registered& registered, const Deadline& deadline) {
  const uint64_t broken = broken_links_.load();
  Status status;
  for (int attempt = 0; attempt < kLinkAttempts; ++attempt) {
    for (const TaskShare& share : registered.shares) {
      LS_TRY(env_.steps->LostStatus(share.number));
    }
    status =
        Link(registered, std::min(deadline, Deadline::After(kFirstLinkAttempt * (1 << attempt))));
    if (status.ok()) {
      registered.linked_at = broken;
      return status;
    }
    const bool late =
        status.code() == StatusCode::kUnavailable || status.code() == StatusCode::kDeadlineExceeded;
    if (!late || deadline.expired()) {
      break;
    }
  }
  return Status(status.code(), fmt::format("a link between tasks broke, and cannot be made again: "
                                           "{}",
                                           status.message()));
}

Result<std::shared_ptr<const Graph>> MasterSession::CurrentGraph() {
  const MutexLock lock(mu_);
  if (closed_) {
    return FailedPrecondition("the session is closed");
  }
  return state_.graph;
}

Result<std::vector<Tensor>> MasterSession::RunCut(const Cut& cut, const StepRequest& request,
                                                  int64_t number) {
  LS_ASSIGN_OR_RETURN(const std::shared_ptr<Registered> registered,
                      Find(cut, request.feeds, request.deadline));
  // A link that broke while nothing ran is made again before anything of the step begins.
  const bool broken =
      std::any_of(registered->shares.begin(), registered->shares.end(),
                  [](const TaskShare& share) { return !share.stub->LinkStatus().ok(); });
  if (broken || registered->linked_at != broken_links_) {
    LS_TRY(LinkAgain(*registered, request.deadline));
  }
  const WorkerRun run{.scope = registered->scope,
                      .step = registered->next_step.fetch_add(1),
                      .info = {config_.seed, number, 0},
                      .deadline = request.deadline};
  Result<std::vector<Tensor>> fetches =
      env_.steps->Run(run, registered->shares, request.feeds, cut.names.fetches.size());
  if (fetches.status().code() == StatusCode::kUnavailable) {
    // Perhaps of a task that is there. The next step finds out.
    broken_links_.fetch_add(1);
  }
  return fetches;
}

Result<uint64_t> MasterSession::PartialRunSetup(const SignatureNames& whole,
                                                const Deadline& deadline) {
  LS_ASSIGN_OR_RETURN(const std::shared_ptr<const Graph> graph, CurrentGraph());
  LS_ASSIGN_OR_RETURN(std::vector<Value> feeds, ValuesOf(*graph, whole.feeds));
  LS_ASSIGN_OR_RETURN(std::vector<Value> fetches, ValuesOf(*graph, whole.fetches));
  LS_ASSIGN_OR_RETURN(std::vector<Node*> targets, NodesOf(*graph, whole.targets));
  LS_ASSIGN_OR_RETURN(
      pass::PartialStep step,
      pass::PartialStep::Create(*graph, std::move(feeds), std::move(fetches), std::move(targets)));
  return partial_runs_.Begin(std::move(step), next_step_number_.fetch_add(1), deadline, graph);
}

Result<std::vector<Tensor>> MasterSession::RunPart(const StepRequest& request) {
  LS_ASSIGN_OR_RETURN(const std::shared_ptr<const Graph> graph, CurrentGraph());
  LS_ASSIGN_OR_RETURN(const std::vector<Value> values, ValuesOf(*graph, request.signature.feeds));
  LS_ASSIGN_OR_RETURN(const std::vector<Value> fetches,
                      ValuesOf(*graph, request.signature.fetches));
  LS_ASSIGN_OR_RETURN(const std::vector<Node*> targets, NodesOf(*graph, request.signature.targets));
  if (values.size() != request.feeds.size()) {
    return InvalidArgument(fmt::format("{} tensors are fed, the signature has {} feeds",
                                       request.feeds.size(), values.size()));
  }
  pass::PartialStep::FeedList feeds;
  for (size_t i = 0; i < values.size(); ++i) {
    feeds.emplace_back(values[i], request.feeds[i]);
  }
  const auto execute = [&](const pass::PartialStep::Part& part, int64_t number,
                           const Deadline& deadline) {
    StepRequest step = request;
    step.feeds = part.tensors;
    step.deadline = std::min(request.deadline, deadline);
    return RunCut(
        {{NamesOf(part.feeds), NamesOf(part.fetches), NamesOf(part.targets)}, NamesOf(part.done)},
        step, number);
  };
  return partial_runs_.Continue(request.partial_run, feeds, fetches, targets, execute);
}

Result<StepReply> MasterSession::Run(const StepRequest& request) {
  StepReply reply;
  if (request.partial_run != 0) {
    LS_ASSIGN_OR_RETURN(reply.fetches, RunPart(request));
  } else {
    SignatureNames names = request.signature;
    if (request.callable != 0) {
      const MutexLock lock(mu_);
      const auto found = callables_.find(request.callable);
      if (found == callables_.end()) {
        return Aborted(fmt::format("the session has no callable {}", request.callable));
      }
      names = found->second;
    }
    LS_ASSIGN_OR_RETURN(reply.fetches, RunCut({.names = std::move(names)}, request,
                                              next_step_number_.fetch_add(1)));
  }
  if (request.trace_placement) {
    const MutexLock lock(mu_);
    reply.placement = pass::DescribePlacement(*state_.graph, state_.placement);
    for (const std::string& note : state_.placement.notes) {
      reply.placement += note + "\n";
    }
  }
  return reply;
}

Result<uint64_t> MasterSession::MakeCallable(const SignatureNames& signature) {
  const MutexLock lock(mu_);
  LS_TRY(ValuesOf(*state_.graph, signature.feeds).status());
  LS_TRY(ValuesOf(*state_.graph, signature.fetches).status());
  LS_TRY(NodesOf(*state_.graph, signature.targets).status());
  callables_[next_callable_] = signature;
  return next_callable_++;
}

Status MasterSession::ReleaseCallable(uint64_t callable) {
  const MutexLock lock(mu_);
  return callables_.erase(callable) == 1
             ? OkStatus()
             : Aborted(fmt::format("the session has no callable {}", callable));
}

Status MasterSession::Close(const Deadline& deadline) {
  {
    const MutexLock lock(mu_);
    closed_ = true;
  }
  partial_runs_.Clear();
  std::vector<std::function<Status()>> calls;
  for (const auto& [number, stub] : env_.workers) {
    // One that is lost has forgotten it, or will not answer.
    if (!env_.steps->IsLost(number)) {
      calls.emplace_back(
          [this, &stub = *stub, &deadline] { return stub.DeleteSession(id_, deadline); });
    }
  }
  return CallAll(calls);
}

}  // namespace lockstep::cluster
