#include "lockstep/cluster/coordinator/membership_view.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::cluster {

std::string_view MemberStateName(MemberState state) {
  switch (state) {
    case MemberState::kAbsent:
      return "absent";
    case MemberState::kActive:
      return "active";
    case MemberState::kJoined:
      return "joined";
    case MemberState::kLeft:
      return "left";
    case MemberState::kLost:
      return "lost";
  }
  return "unknown";
}

std::string ListTasks(const ClusterSpec& cluster, const std::vector<int>& numbers) {
  constexpr size_t kShown = 16;
  std::vector<std::string> names;
  for (const int number : numbers) {
    if (names.size() == kShown) {
      break;
    }
    names.push_back(cluster.tasks()[static_cast<size_t>(number)].id.ToString());
  }
  const std::string list = fmt::format("{}", fmt::join(names, ", "));
  return numbers.size() > kShown ? fmt::format("{} and {} more", list, numbers.size() - kShown)
                                 : list;
}

}  // namespace lockstep::cluster
