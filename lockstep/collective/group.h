// Group: some tasks of a transport that make collective calls together. Any subset of tasks, in any
// order; several groups at once, of the same tasks too; any number in one process.
//
//   GroupOptions options{.name = "all", .tasks = {0, 1, 2}, .replicas = 8};
//   LS_ASSIGN_OR_RETURN(auto group, Group::Create(transport, options, deadline));
//   LS_TRY(group->Run(AllReduceCall(spec, nodes, result), deadline));
//   Work work = group->Start(AllReduceCall(...), deadline);  ...  LS_TRY(work.Wait());
//
// All members make the same calls in the same order. Calls of one group are carried out one after
// another, those of different groups at the same time. Every call waits for all members. Errors,
// after which the group is broken at all members, and later calls fail at once with the first
// cause:
//   InvalidArgument   a call that does not fit, or differs between members: names both tasks and
//                     both calls
//   DeadlineExceeded  names all members that did not come
//   Unavailable       a member is lost: names it, within twice the heartbeat of the transport
// A member may see a call succeed that has failed for another one; it then sees the next one fail.
// Thread-safe; with the simulated network's virtual time only Run may be used.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/collective/call.h"
#include "lockstep/collective/work.h"
#include "lockstep/net/transport.h"

namespace lockstep::collective {

// The same at all members.
struct GroupOptions {
  std::string name = {};
  // Tells groups of one name apart, such as the number of the view of the cluster. No two groups of
  // a transport have the same name and generation, not even one after the other.
  uint64_t generation = 0;
  std::vector<net::PeerId> tasks = {};  // member i is tasks[i]
  int64_t replicas = 0;                 // logical replicas, dealt out by ReplicaMap; one each if 0
  // Members of one host reduce in shared memory; if one says no, all do without.
  bool shared_memory = true;
  // By member: which host it is on, if that is not to be taken from the links. Members share memory
  // only if they have the same number here.
  std::vector<int> hosts = {};
};

class Group {
  struct Token {
    explicit Token() = default;
  };

 public:
  using Done = std::function<void(const Status&)>;

  // Waits for all members. Errors: InvalidArgument when this task is no member, or when members
  // differ in what they create; as above. `transport` must outlive the group.
  static Result<std::unique_ptr<Group>> Create(net::Transport& transport,
                                               const GroupOptions& options,
                                               const Deadline& deadline);

  // The same for a transport that somebody else may let go of first, as a server that stops does.
  static Result<std::unique_ptr<Group>> Create(std::shared_ptr<net::Transport> transport,
                                               const GroupOptions& options,
                                               const Deadline& deadline);

  // For Create only.
  class Impl;
  Group(Token, std::unique_ptr<Impl> impl);
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  // Ends the calls that have not begun with Cancelled, and waits for the one that is running.
  ~Group();

  const std::string& name() const;
  int self() const;
  int members() const;
  // "/job:worker/task:1".
  std::string member_name(int member) const;
  // Which member holds which replicas.
  const ReplicaMap& map() const;

  // Memory of at least `bytes`, zeros at first, that members of the same host can map: large
  // reductions whose inputs and outputs all lie in such memory copy nothing. Peers that have mapped
  // it keep it until the end of the group. Errors: ResourceExhausted.
  Result<std::shared_ptr<net::Region>> Allocate(size_t bytes);

  // By the clock of the transport.
  Deadline After(std::chrono::milliseconds delay) const;

  // Carries the call out on this thread.
  Status Run(Call call, const Deadline& deadline);
  // Begins it on a thread of the group. `done`, if there is one, is called on that thread (or on
  // one that waits) before Wait returns, and must not wait for calls of this group.
  Work Start(Call call, const Deadline& deadline, Done done = nullptr);

  // Breaks the group here and at all other members, whose calls end with Unavailable that names
  // this task and says why: when it cannot go on, so that nobody waits for it.
  void Abort(const Status& why);

  // True if all members reduce in shared memory.
  bool shares_memory() const;

  // Why the group is broken, or OK.
  Status status() const;

 private:
  // Null: the creator's. Ends after the rest.
  std::shared_ptr<net::Transport> transport_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::collective
