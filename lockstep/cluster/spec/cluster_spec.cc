#include "lockstep/cluster/spec/cluster_spec.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/quote.h"
#include "lockstep/base/sha256.h"
#include "lockstep/base/suggest.h"
#include "lockstep/cluster/internal/document.h"
#include "lockstep/cluster/internal/read_cluster.h"

namespace lockstep::cluster {
namespace {

bool IsDense(const ClusterSpec::SparseJob& job) {
  return job.empty() || job.rbegin()->first == static_cast<int>(job.size()) - 1;
}

std::string AddressList(const ClusterSpec::SparseJob& job) {
  const bool dense = IsDense(job);
  std::string text(1, dense ? '[' : '{');
  for (const auto& [index, address] : job) {
    if (text.size() > 1) {
      text += ',';
    }
    text += dense ? fmt::format("\"{}\"", address.ToString())
                  : fmt::format("\"{}\":\"{}\"", index, address.ToString());
  }
  text += dense ? ']' : '}';
  return text;
}

}  // namespace

Result<ClusterSpec> ClusterSpec::FromJobs(Jobs jobs, net::PortZero zero) {
  ClusterSpec spec;
  std::map<net::Address, TaskId> seen;
  for (auto& [name, job] : jobs) {
    LS_TRY(CheckJobName(name));
    if (job.empty()) {
      continue;
    }
    for (const auto& [index, address] : job) {
      const TaskId id{name, index};
      if (index < 0 || index >= kMaxTasks) {
        return InvalidArgument(
            fmt::format("/job:{}: task index {} is out of range, allowed are 0 "
                        "to {}",
                        name, index, kMaxTasks - 1));
      }
      LS_TRY(internal::CheckTaskAddress(id, address, zero));
      const auto [it, is_new] = seen.emplace(address.AsIpv4(), id);
      if (!is_new && address.port() != 0) {
        return InvalidArgument(fmt::format("{} and {} have the same address {}",
                                           it->second.ToString(), id.ToString(),
                                           address.ToString()));
      }
      spec.tasks_.push_back({id, address});
    }
    if (spec.tasks_.size() > kMaxTasks) {
      return InvalidArgument(fmt::format("the cluster has more than {} tasks", kMaxTasks));
    }
    spec.jobs_.emplace(name, std::move(job));
  }
  return spec;
}

Result<ClusterSpec> ClusterSpec::Create(const std::map<std::string, std::vector<std::string>>& jobs,
                                        net::PortZero zero) {
  Jobs parsed;
  for (const auto& [name, addresses] : jobs) {
    SparseJob& job = parsed[name];
    for (const std::string& text : addresses) {
      const int index = static_cast<int>(job.size());
      Result<net::Address> address = net::Address::Parse(text, zero);
      if (!address.ok()) {
        return address.status().With(TaskId{name, index}.ToString());
      }
      job.emplace(index, *address);
    }
  }
  return FromJobs(std::move(parsed), zero);
}

Result<ClusterSpec> ClusterSpec::FromJson(std::string_view text) {
  const internal::Document document{"cluster", false};
  LS_ASSIGN_OR_RETURN(const internal::Node root, internal::ParseJson(text, document));
  LS_ASSIGN_OR_RETURN(Jobs jobs, internal::ReadJobs(root, document, internal::JobNames::kAny));
  return FromJobs(std::move(jobs));
}

Status ClusterSpec::NoJob(std::string_view job) const {
  const std::vector<std::string> names = jobs();
  const std::vector<std::string_view> known(names.begin(), names.end());
  return NotFound(fmt::format(
      "there is no job {} in the cluster{}: it has {}", Quoted(job), DidYouMean(job, known),
      names.empty() ? "no jobs" : fmt::format("{}", fmt::join(names, ", "))));
}

std::vector<std::string> ClusterSpec::jobs() const {
  std::vector<std::string> names;
  for (const auto& [name, job] : jobs_) {
    names.push_back(name);
  }
  return names;
}

Result<bool> ClusterSpec::dense(std::string_view job) const {
  const auto it = jobs_.find(job);
  if (it == jobs_.end()) {
    return NoJob(job);
  }
  return IsDense(it->second);
}

Result<int> ClusterSpec::num_tasks(std::string_view job) const {
  const auto it = jobs_.find(job);
  if (it == jobs_.end()) {
    return NoJob(job);
  }
  return static_cast<int>(it->second.size());
}

Result<std::vector<int>> ClusterSpec::task_indices(std::string_view job) const {
  const auto it = jobs_.find(job);
  if (it == jobs_.end()) {
    return NoJob(job);
  }
  std::vector<int> indices;
  for (const auto& [index, address] : it->second) {
    indices.push_back(index);
  }
  return indices;
}

Result<net::Address> ClusterSpec::task_address(const TaskId& id) const {
  const auto job = jobs_.find(id.job);
  if (job == jobs_.end()) {
    return NoJob(id.job);
  }
  const auto it = job->second.find(id.index);
  if (it == job->second.end()) {
    const int count = static_cast<int>(job->second.size());
    return NotFound(
        fmt::format("there is no {} in the cluster: /job:{} has {}", id.ToString(), id.job,
                    IsDense(job->second)
                        ? fmt::format("{} task{}, 0 to {}", count, count == 1 ? "" : "s", count - 1)
                        : fmt::format("{} of the tasks {} to {}", count, job->second.begin()->first,
                                      job->second.rbegin()->first)));
  }
  return it->second;
}

Result<std::vector<std::optional<net::Address>>> ClusterSpec::job_tasks(
    std::string_view job) const {
  const auto it = jobs_.find(job);
  if (it == jobs_.end()) {
    return NoJob(job);
  }
  std::vector<std::optional<net::Address>> tasks(static_cast<size_t>(it->second.rbegin()->first) +
                                                 1);
  for (const auto& [index, address] : it->second) {
    tasks[static_cast<size_t>(index)] = address;
  }
  return tasks;
}

std::optional<int> ClusterSpec::NumberOf(const TaskId& id) const {
  const auto it = std::lower_bound(tasks_.begin(), tasks_.end(), id,
                                   [](const Task& task, const TaskId& b) { return task.id < b; });
  if (it == tasks_.end() || it->id != id) {
    return std::nullopt;
  }
  return static_cast<int>(it - tasks_.begin());
}

std::optional<TaskId> ClusterSpec::chief() const {
  for (const char* job : {"chief", "master", "worker"}) {
    if (TaskId id{job, 0}; NumberOf(id)) {
      return id;
    }
  }
  return std::nullopt;
}

std::string ClusterSpec::ToJson() const {
  std::string text = "{";
  for (const auto& [name, job] : jobs_) {
    text += fmt::format("{}\"{}\":{}", text.size() > 1 ? "," : "", name, AddressList(job));
  }
  return text + '}';
}

Result<std::string> ClusterSpec::Fingerprint() const {
  return Sha256Hex(ToJson());
}

std::string ClusterSpec::Difference(const ClusterSpec& there) const {
  for (const Task& task : tasks_) {
    const std::optional<int> number = there.NumberOf(task.id);
    if (!number) {
      return fmt::format("{} is {} here and not there", task.id.ToString(),
                         task.address.ToString());
    }
    const net::Address& other = there.tasks_[static_cast<size_t>(*number)].address;
    if (other != task.address) {
      return fmt::format("{} is {} here and {} there", task.id.ToString(), task.address.ToString(),
                         other.ToString());
    }
  }
  for (const Task& task : there.tasks_) {
    if (!NumberOf(task.id)) {
      return fmt::format("{} is {} there and not here", task.id.ToString(),
                         task.address.ToString());
    }
  }
  return {};
}

}  // namespace lockstep::cluster
