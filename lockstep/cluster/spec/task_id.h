// TaskId: the name of a task in its cluster, job and index.
#pragma once

#include <compare>
#include <string>
#include <string_view>

#include "lockstep/base/result.h"

namespace lockstep::cluster {

// Indices below this, so that a hostile description cannot ask for memory that nobody has.
constexpr int kMaxTasks = 1 << 16;

struct TaskId {
  std::string job;
  int index = 0;

  // "/job:worker/task:2"; "/replica:0" may stand between them.
  static Result<TaskId> Parse(std::string_view text);

  std::string ToString() const;

  friend bool operator==(const TaskId&, const TaskId&) = default;

  // By job name, then index.
  friend std::strong_ordering operator<=>(const TaskId& a, const TaskId& b) {
    const int order = a.job.compare(b.job);
    return order != 0 ? order <=> 0 : a.index <=> b.index;
  }
};

// A letter, then letters, digits and '_', at most 64 of them: what device names allow.
Status CheckJobName(std::string_view name);

}  // namespace lockstep::cluster
