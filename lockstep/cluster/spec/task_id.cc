#include "lockstep/cluster/spec/task_id.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/quote.h"
#include "lockstep/graph/device_name.h"

namespace lockstep::cluster {
namespace {

constexpr size_t kMaxJobName = 64;

bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

}  // namespace

Status CheckJobName(std::string_view name) {
  const bool good = !name.empty() && name.size() <= kMaxJobName && IsLetter(name[0]) &&
                    std::all_of(name.begin(), name.end(), [](char c) {
                      return IsLetter(c) || (c >= '0' && c <= '9') || c == '_';
                    });
  if (!good) {
    return InvalidArgument(
        fmt::format("job name {}: expected a letter, then letters, digits and '_', at most {}",
                    Quoted(name), kMaxJobName));
  }
  return OkStatus();
}

Result<TaskId> TaskId::Parse(std::string_view text) {
  Result<DeviceName> name = DeviceName::Parse(text);
  if (!name.ok() || !name->job || !name->task || name->replica.value_or(0) != 0 || name->type ||
      name->index || *name->task >= kMaxTasks || !CheckJobName(*name->job).ok()) {
    return InvalidArgument(fmt::format("task name {}: expected /job:NAME/task:N with N below {}",
                                       Quoted(text), kMaxTasks));
  }
  return TaskId{*name->job, *name->task};
}

std::string TaskId::ToString() const {
  return fmt::format("/job:{}/task:{}", job, index);
}

}  // namespace lockstep::cluster
