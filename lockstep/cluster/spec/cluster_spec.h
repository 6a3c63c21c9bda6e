// ClusterSpec: which tasks there are and where each listens. Immutable; a job is dense (tasks
// 0..n-1) or sparse (some indices only, for a server that knows only some of its peers).
//
//   LS_ASSIGN_OR_RETURN(const ClusterSpec spec,
//                       ClusterSpec::Create({{"ps", {"a:2222"}}, {"worker", {"b:1", "c:1"}}}));
//   spec.task_address({"worker", 1});   // c:1
//
// Canonical order: by job name, then index. The place of a task in it is its number inside
// transports. Equal specs have equal text, equal bytes and equal fingerprints.
// Errors: INVALID_ARGUMENT for a description that cannot be (with the two tasks of one address),
// NOT_FOUND for a job or task that is not there, with what is.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/result.h"
#include "lockstep/cluster/spec/task_id.h"
#include "lockstep/net/address.h"

namespace lockstep::cluster {

class ClusterSpec {
 public:
  using SparseJob = std::map<int, net::Address>;
  using Jobs = std::map<std::string, SparseJob>;

  struct Task {
    TaskId id;
    net::Address address;

    friend bool operator==(const Task&, const Task&) = default;
  };

  // The empty cluster.
  ClusterSpec() = default;

  // Jobs without tasks are dropped. Refused: names and indices that cannot be, the same address
  // twice, more than kMaxTasks tasks, an address that names no host (0.0.0.0, [::]). Port 0 only
  // if `zero` allows it, for a server that is alone and may listen anywhere.
  static Result<ClusterSpec> FromJobs(Jobs jobs, net::PortZero zero = net::PortZero::kRefused);

  // Dense jobs from the text of their addresses.
  static Result<ClusterSpec> Create(const std::map<std::string, std::vector<std::string>>& jobs,
                                    net::PortZero zero = net::PortZero::kRefused);

  // What ToJson wrote, or the same by hand: {"ps": ["a:1"], "worker": {"0": "b:1", "7": "c:1"}}.
  static Result<ClusterSpec> FromJson(std::string_view text);

  bool empty() const { return tasks_.empty(); }

  // Of all jobs.
  int size() const { return static_cast<int>(tasks_.size()); }

  // In canonical order.
  const std::vector<Task>& tasks() const { return tasks_; }

  // Names, sorted.
  std::vector<std::string> jobs() const;

  bool has_job(std::string_view job) const { return jobs_.find(job) != jobs_.end(); }

  // Tasks 0..n-1 without a hole.
  Result<bool> dense(std::string_view job) const;
  // How many there are; in a sparse job less than its greatest index + 1.
  Result<int> num_tasks(std::string_view job) const;
  // Sorted.
  Result<std::vector<int>> task_indices(std::string_view job) const;
  Result<net::Address> task_address(const TaskId& id) const;
  // By index, up to the greatest; nothing where a sparse job has a hole.
  Result<std::vector<std::optional<net::Address>>> job_tasks(std::string_view job) const;

  // The place of the task in tasks(), if it is there.
  std::optional<int> NumberOf(const TaskId& id) const;

  // The task that initialises, saves and leads: /job:chief/task:0, else /job:master/task:0, else
  // /job:worker/task:0; nothing if there is none of them.
  std::optional<TaskId> chief() const;

  // Canonical: jobs sorted, a dense job as a list, a sparse one as an object, no white space.
  std::string ToJson() const;

  // SHA-256 of ToJson, in hex: tasks that hold different specs refuse each other by it.
  Result<std::string> Fingerprint() const;

  // The first difference in words, for two tasks that disagree: "/job:worker/task:1 is a:1 here and
  // b:1 there". Empty for equal specs.
  std::string Difference(const ClusterSpec& there) const;

  friend bool operator==(const ClusterSpec& a, const ClusterSpec& b) {
    return a.tasks_ == b.tasks_;
  }

 private:
  Status NoJob(std::string_view job) const;

  std::map<std::string, SparseJob, std::less<>> jobs_;
  std::vector<Task> tasks_;
};

}  // namespace lockstep::cluster
