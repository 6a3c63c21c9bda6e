// MembershipView: who is in the job, as the coordinator sees it at one moment. Views are numbered;
// a later view has a greater number.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/result.h"
#include "lockstep/cluster/spec/cluster_spec.h"

namespace lockstep::cluster {

// A task at one of its starts.
struct TaskStart {
  int number = 0;
  uint64_t incarnation = 0;
};

//            register             Join                 Leave
//   kAbsent ----------> kActive <------> kJoined   ------------> kLeft
//      any of kActive, kJoined --- no heartbeat ---> kLost
//   A new start of a task (another incarnation) leads from kLeft and kLost to kActive.
enum class MemberState : int {
  kAbsent = 0,
  // Takes part, and its program has something to do.
  kActive = 1,
  // Takes part and only serves others until the job is over.
  kJoined = 2,
  kLeft = 3,
  kLost = 4,
};

// "absent", "active", "joined", "left", "lost".
std::string_view MemberStateName(MemberState state);

struct Member {
  MemberState state = MemberState::kAbsent;
  // Of its latest start; 0 if it was never seen.
  uint64_t incarnation = 0;
  // Why it is lost, or what made it leave; OK if it left because it was done.
  Status reason;

  bool present() const { return state == MemberState::kActive || state == MemberState::kJoined; }
};

struct MembershipView {
  uint64_t number = 0;
  // By the number of the task in its cluster.
  std::vector<Member> members;
  // Somebody had something to do, and nobody has any more.
  bool job_over = false;
};

// "/job:ps/task:0, /job:worker/task:1 and 3 more".
std::string ListTasks(const ClusterSpec& cluster, const std::vector<int>& numbers);

}  // namespace lockstep::cluster
