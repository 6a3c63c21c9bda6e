#include "lockstep/cluster/master/master.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <thread>

#include "lockstep/base/hmac.h"
#include "lockstep/cluster/coordinator/membership_view.h"
#include "lockstep/graph/serialize.h"

namespace lockstep::cluster {
namespace {

constexpr size_t kRememberedRequests = 10'000;
// Each task has this long to forget a session that is closed.
constexpr std::chrono::milliseconds kCloseTimeout{10'000};

}  // namespace

Master::Master(MasterOptions options, const OpCatalog& catalog, StubMaker stubs,
               net::Progress& progress)
    : options_(std::move(options)),
      catalog_(catalog),
      stubs_(std::move(stubs)),
      steps_(progress),
      requests_(kRememberedRequests) {}

Master::~Master() {
  Close(Unavailable("the master has stopped"));
  std::thread watch;
  {
    const MutexLock lock(mu_);
    watch = std::move(watch_);
  }
  if (watch.joinable()) {
    watch.join();
  }
}

void Master::Close(const Status& why) {
  steps_.Close(why);
  const MutexLock lock(mu_);
  closed_ = closed_.ok() ? why : closed_;
  changed_.NotifyAll();
}

Result<std::unique_ptr<Graph>> Master::Parse(const std::string& graph) const {
  ParseLimits limits;
  limits.max_bytes = std::numeric_limits<int>::max();
  limits.max_tensor_bytes = std::numeric_limits<int>::max();
  return ParseGraph(graph, catalog_, limits);
}

std::vector<int> Master::TasksOf(const std::vector<DeviceName>& filters) const {
  std::vector<int> numbers;
  for (const int number : options_.def.VisibleTasks()) {
    const TaskId& id = options_.def.cluster().tasks()[static_cast<size_t>(number)].id;
    DeviceName task;
    task.job = id.job;
    task.replica = 0;
    task.task = id.index;
    const bool wanted = filters.empty() || number == options_.def.number() ||
                        std::any_of(filters.begin(), filters.end(), [&](const DeviceName& filter) {
                          return filter.CompatibleWith(task);
                        });
    if (wanted) {
      numbers.push_back(number);
    }
  }
  return numbers;
}

Result<Master::Found> Master::FindWorkers(const std::vector<int>& numbers,
                                          const Deadline& deadline) const {
  Found found;
  const Result<std::vector<pass::DeviceAttributes>> none{std::vector<pass::DeviceAttributes>()};
  std::vector<Result<std::vector<pass::DeviceAttributes>>> answers(numbers.size(), none);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < numbers.size(); ++i) {
    Result<std::shared_ptr<WorkerStub>> stub = stubs_(numbers[i]);
    if (!stub.ok()) {
      answers[i] = stub.status();
      continue;
    }
    found.workers[numbers[i]] = *stub;
    threads.emplace_back(
        [&answers, i, stub = *stub, deadline] { answers[i] = stub->GetStatus(deadline); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  std::vector<int> missing;
  Status status;
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (!answers[i].ok() || answers[i]->empty()) {
      missing.push_back(numbers[i]);
      status = status.ok() ? answers[i].status() : status;
      continue;
    }
    found.incarnations[numbers[i]] = answers[i]->front().incarnation;
    found.devices.insert(found.devices.end(), answers[i]->begin(), answers[i]->end());
  }
  if (!missing.empty()) {
    return Status(
        status.ok() ? StatusCode::kUnavailable : status.code(),
        fmt::format("a session uses {} tasks, and of {} there was no answer: {}", numbers.size(),
                    ListTasks(options_.def.cluster(), missing), status.message()));
  }
  return found;
}

Result<SessionHandle> Master::CreateSession(const std::string& graph, const SessionConfig& config,
                                            const Deadline& deadline) {
  {
    const MutexLock lock(mu_);
    LS_TRY(closed_);
  }
  SessionConfig effective = config;
  if (config.server_defaults) {
    effective.isolate = options_.def.session().isolate_session_state;
    effective.soft_placement = options_.def.session().allow_soft_placement;
    effective.log_placement = options_.def.session().log_device_placement;
  }
  if (config.container.find('\0') != std::string::npos) {
    return InvalidArgument("the name of a container holds a zero byte");
  }
  std::vector<DeviceName> filters;
  for (const std::string& filter : config.device_filters) {
    LS_ASSIGN_OR_RETURN(DeviceName name, DeviceName::Parse(filter));
    filters.push_back(std::move(name));
  }
  LS_ASSIGN_OR_RETURN(std::unique_ptr<Graph> parsed, Parse(graph));
  LS_ASSIGN_OR_RETURN(Found found, FindWorkers(TasksOf(filters), deadline));
  SessionHandle handle;
  LS_ASSIGN_OR_RETURN(handle.session, RandomNonZero());
  const TaskId& self = options_.def.task();
  LS_ASSIGN_OR_RETURN(pass::DeviceSet devices,
                      pass::DeviceSet::Create(std::move(found.devices),
                                              fmt::format("/job:{}/replica:0/task:{}/device:CPU:0",
                                                          self.job, self.index),
                                              effective.device_filters));
  MasterSessionEnv env{.cluster = options_.def.cluster(),
                       .number = options_.def.number(),
                       .workers = std::move(found.workers),
                       .incarnations = std::move(found.incarnations),
                       .devices = std::move(devices),
                       .steps = &steps_,
                       .log = options_.log};
  const auto workers = env.workers;
  auto session = std::make_shared<MasterSession>(handle.session, effective, std::move(env));
  LS_ASSIGN_OR_RETURN(handle.graph_version, session->SetGraph(std::move(parsed), 0));
  for (const auto& [number, stub] : workers) {
    const Status status =
        stub->CreateSession(handle.session, {effective.container, effective.isolate}, deadline);
    if (!status.ok()) {
      (void)session->Close(Deadline::After(kCloseTimeout));
      return status;
    }
  }
  const MutexLock lock(mu_);
  const auto now = Deadline::Clock::now();
  sessions_[handle.session] = {std::move(session), now, now, effective.lease};
  const bool may_end = effective.lease.count() > 0 || options_.session_idle_timeout.count() > 0;
  if (may_end && closed_.ok()) {
    if (!watch_.joinable()) {
      watch_ = std::thread([this] { WatchSessions(); });
    }
    changed_.NotifyAll();
  }
  return handle;
}

Result<std::shared_ptr<MasterSession>> Master::Find(uint64_t session) {
  const MutexLock lock(mu_);
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) {
    return Aborted(
        fmt::format("session {:x} is not known at {}: it was closed, or the task has restarted",
                    session, options_.def.task().ToString()));
  }
  found->second.used = Deadline::Clock::now();
  found->second.heard = found->second.used;
  return found->second.session;
}

Status Master::KeepSession(uint64_t session, const Deadline& /*deadline*/) {
  const MutexLock lock(mu_);
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) {
    return Aborted(
        fmt::format("session {:x} is not known at {}", session, options_.def.task().ToString()));
  }
  found->second.heard = Deadline::Clock::now();
  return OkStatus();
}

Result<SessionHandle> Master::ExtendSession(const SessionHandle& handle, const std::string& graph,
                                            const Deadline& /*deadline*/) {
  LS_ASSIGN_OR_RETURN(const std::shared_ptr<MasterSession> session, Find(handle.session));
  LS_ASSIGN_OR_RETURN(std::unique_ptr<Graph> parsed, Parse(graph));
  SessionHandle extended = handle;
  LS_ASSIGN_OR_RETURN(extended.graph_version,
                      session->SetGraph(std::move(parsed), handle.graph_version));
  return extended;
}

Result<StepReply> Master::RunStep(const StepRequest& request) {
  LS_ASSIGN_OR_RETURN(const std::shared_ptr<MasterSession> session, Find(request.session));
  {
    const MutexLock lock(mu_);
    if (!requests_.Add(request.request_id)) {
      return Aborted(fmt::format("request {:x} came to {} before", request.request_id,
                                 options_.def.task().ToString()));
    }
  }
  const int64_t limit_ms = options_.def.session().operation_timeout_ms;
  if (limit_ms == 0) {
    return session->Run(request);
  }
  StepRequest limited = request;
  limited.deadline =
      std::min(request.deadline, Deadline::After(std::chrono::milliseconds(limit_ms)));
  return session->Run(limited);
}

Result<uint64_t> Master::PartialRunSetup(uint64_t session, const SignatureNames& whole,
                                         const Deadline& deadline) {
  LS_ASSIGN_OR_RETURN(const std::shared_ptr<MasterSession> found, Find(session));
  return found->PartialRunSetup(whole, deadline);
}

Result<uint64_t> Master::MakeCallable(uint64_t session, const SignatureNames& signature,
                                      const Deadline& /*deadline*/) {
  LS_ASSIGN_OR_RETURN(const std::shared_ptr<MasterSession> found, Find(session));
  return found->MakeCallable(signature);
}

Status Master::ReleaseCallable(uint64_t session, uint64_t callable, const Deadline& /*deadline*/) {
  LS_ASSIGN_OR_RETURN(const std::shared_ptr<MasterSession> found, Find(session));
  return found->ReleaseCallable(callable);
}

Status Master::CloseSession(uint64_t session, const Deadline& deadline) {
  LS_ASSIGN_OR_RETURN(const std::shared_ptr<MasterSession> found, Find(session));
  {
    const MutexLock lock(mu_);
    sessions_.erase(session);
  }
  return found->Close(std::min(deadline, Deadline::After(kCloseTimeout)));
}

Deadline Master::TakeIdle(std::vector<std::shared_ptr<MasterSession>>& idle) {
  const auto now = Deadline::Clock::now();
  Deadline next = Deadline::Infinite();
  for (auto it = sessions_.begin(); it != sessions_.end();) {
    Entry& entry = it->second;
    // One that runs a step is held by it.
    if (entry.session.use_count() > 1) {
      entry.used = entry.heard = now;
    }
    Deadline due = Deadline::Infinite();
    if (options_.session_idle_timeout.count() > 0) {
      due = Deadline::At(entry.used + options_.session_idle_timeout);
    }
    if (entry.lease.count() > 0) {
      due = std::min(due, Deadline::At(entry.heard + entry.lease));
    }
    if (due.expired()) {
      idle.push_back(std::move(entry.session));
      it = sessions_.erase(it);
    } else {
      next = std::min(next, due);
      ++it;
    }
  }
  return next;
}

void Master::WatchSessions() {
  for (;;) {
    std::vector<std::shared_ptr<MasterSession>> idle;
    {
      const MutexLock lock(mu_);
      const Deadline next = TakeIdle(idle);
      if (!closed_.ok()) {
        return;
      }
      if (idle.empty()) {
        changed_.WaitUntil(mu_, next);
        continue;
      }
    }
    for (const auto& session : idle) {
      (void)session->Close(Deadline::After(kCloseTimeout));
      // Not after Close: then the log may be gone.
      const MutexLock lock(mu_);
      if (closed_.ok() && options_.log != nullptr) {
        options_.log->Info(fmt::format("{}: a session that nobody uses any more was closed",
                                       options_.def.task().ToString()));
      }
    }
  }
}

Result<std::vector<pass::DeviceAttributes>> Master::ListDevices(uint64_t session,
                                                                const Deadline& deadline) {
  std::vector<pass::DeviceAttributes> devices;
  if (session == 0) {
    LS_ASSIGN_OR_RETURN(Found found, FindWorkers(TasksOf({}), deadline));
    return std::move(found.devices);
  }
  LS_ASSIGN_OR_RETURN(const std::shared_ptr<MasterSession> found, Find(session));
  for (const pass::PlacementDevice& device : found->devices().devices()) {
    devices.push_back(device.attributes);
  }
  return devices;
}

Status Master::Reset(const std::vector<std::string>& containers, const Deadline& deadline) {
  std::map<uint64_t, Entry> sessions;
  {
    const MutexLock lock(mu_);
    sessions = std::move(sessions_);
    sessions_.clear();
  }
  Status status;
  for (const auto& [id, entry] : sessions) {
    const Status closed = entry.session->Close(std::min(deadline, Deadline::After(kCloseTimeout)));
    status = status.ok() ? closed : status;
  }
  for (const int number : TasksOf({})) {
    LS_ASSIGN_OR_RETURN(const std::shared_ptr<WorkerStub> stub, stubs_(number));
    const Status cleaned = stub->CleanupAll(containers, deadline);
    status = status.ok() ? cleaned : status;
  }
  return status;
}

size_t Master::num_sessions() const {
  const MutexLock lock(mu_);
  return sessions_.size();
}

}  // namespace lockstep::cluster
