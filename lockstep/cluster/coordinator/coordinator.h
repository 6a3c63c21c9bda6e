// Coordinator: the one place that knows who is in the job. Tasks register with it, send it
// heartbeats, and ask it for views, barriers and shared values. It lives in the server of the
// chief, and every task has one connection to it: n connections, not n squared.
//
// It reads no clock and has no thread: Advance is called every few milliseconds and ends what is
// due. Whatever waits answers by a callback, called exactly once, without a lock held. Thread-safe.
//
// Errors: FAILED_PRECONDITION (another cluster, another version), ALREADY_EXISTS (the index is
// taken, the key is set), ABORTED (not the incarnation that registered), UNAVAILABLE (a task is
// lost), DEADLINE_EXCEEDED that names who is missing.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/base/mutex.h"
#include "lockstep/base/result.h"
#include "lockstep/cluster/coordinator/barriers.h"
#include "lockstep/cluster/coordinator/key_value_store.h"
#include "lockstep/cluster/coordinator/membership_view.h"
#include "lockstep/cluster/spec/cluster_spec.h"

namespace lockstep::cluster {

struct Registration {
  TaskStart task;
  std::string name;
  std::string fingerprint;
  // The caller's cluster as JSON.
  std::string cluster;
};

class Coordinator {
 public:
  using Time = Deadline::Clock::time_point;
  using Done = std::function<void(const Status&)>;
  using ViewDone = std::function<void(const Result<MembershipView>&)>;
  // Called with who was refused and why, for a log: once for each start of a task, and at most once
  // a second for callers without a name.
  using OnRefused = std::function<void(const std::string&)>;

  // A task that was not heard of for 1.5 `heartbeat` is lost, so that with views that are pushed
  // everybody knows within 2.
  static Result<std::unique_ptr<Coordinator>> Create(ClusterSpec cluster,
                                                     std::chrono::milliseconds heartbeat,
                                                     OnRefused on_refused = nullptr);

  Coordinator(ClusterSpec cluster, std::string fingerprint, std::chrono::milliseconds heartbeat,
              OnRefused on_refused);

  std::chrono::milliseconds heartbeat() const { return heartbeat_; }

  // The same start may register again.
  Status Register(const Registration& registration, Time now) LS_EXCLUDES(mu_);
  // Notes that somebody at `peer` ("10.0.0.1:40000") could not prove to be of the job.
  void NoteStranger(const std::string& peer, Time now) LS_EXCLUDES(mu_);
  Status Heartbeat(const TaskStart& task, Time now) LS_EXCLUDES(mu_);
  // Serves others only, or has something to do again.
  Status SetJoined(const TaskStart& task, bool joined, Time now) LS_EXCLUDES(mu_);
  // `why` is OK if the task is done, else what made it give up.
  Status Leave(const TaskStart& task, const Status& why, Time now) LS_EXCLUDES(mu_);

  MembershipView view() const LS_EXCLUDES(mu_);
  // The first view with a number greater than `after`; at the deadline the one that there is.
  void Watch(uint64_t after, const Deadline& deadline, ViewDone done) LS_EXCLUDES(mu_);
  // Until all of these are present, or have been since `task` is; UNAVAILABLE if one gave up
  // meanwhile. At the deadline it says who is missing, and who of them was refused or lost.
  void WaitForTasks(const TaskStart& task, std::vector<int> numbers, const Deadline& deadline,
                    Done done) LS_EXCLUDES(mu_);
  // See barriers.h. No numbers: every task of the cluster.
  void Barrier(const TaskStart& task, const std::string& name, std::vector<int> numbers,
               const Deadline& deadline, Done done, Time now) LS_EXCLUDES(mu_);

  // See key_value_store.h.
  Status Insert(const std::string& key, std::string value, bool overwrite) LS_EXCLUDES(mu_);
  void Get(const std::string& key, const Deadline& deadline, KeyValueStore::Done done)
      LS_EXCLUDES(mu_);
  KeyValueStore::Entries List(const std::string& prefix) const LS_EXCLUDES(mu_);
  int Delete(const std::string& key, bool directory) LS_EXCLUDES(mu_);

  // Ends waits whose time has come and declares silent tasks lost.
  void Advance(Time now) LS_EXCLUDES(mu_);

  // Ends every wait, and every later one at once, with `why`.
  void Close(const Status& why) LS_EXCLUDES(mu_);

 private:
  struct Watcher {
    uint64_t after;
    Deadline deadline;
    ViewDone done;
  };

  struct Gathering {
    // Of the view in which the task that waits came.
    uint64_t since;
    std::vector<int> numbers;
    Deadline deadline;
    Done done;
  };

  // The views in which a task came and left, the last time.
  struct Stay {
    uint64_t came = 0;
    uint64_t left = 0;
  };

  struct Refusal {
    uint64_t incarnation;
    Time at;
    std::string why;
  };

  struct Strangers {
    int count = 0;
    std::string last;
    Time at;
    Time told;
  };

  // What is called when the lock is released.
  using Calls = std::vector<std::function<void()>>;

  std::string NameOf(int number) const;
  Status Admit(const Registration& registration, Time now) LS_EXCLUDES(mu_);
  void NoteRefusal(const Registration& registration, const Status& why, Time now) LS_EXCLUDES(mu_);
  // What is known of those who are missing, to follow their names.
  std::string WhyMissing(const std::vector<int>& missing, Time now) const LS_REQUIRES(mu_);
  Status CheckNumbers(const std::vector<int>& numbers) const;
  Status CheckCluster(const Registration& registration) const;
  // Of a task that is present with this incarnation; notes that it was heard of.
  Status Hear(const TaskStart& task, Time now) LS_REQUIRES(mu_);
  std::vector<int> Missing(const Gathering& gathering) const LS_REQUIRES(mu_);
  // Of the first who came and gave up meanwhile.
  Status GaveUp(const Gathering& gathering) const LS_REQUIRES(mu_);
  void Change(int number, MemberState state, const Status& reason, Calls& calls) LS_REQUIRES(mu_);
  void AnswerWatchers(Time now, Calls& calls) LS_REQUIRES(mu_);
  void AnswerGatherings(Time now, Calls& calls) LS_REQUIRES(mu_);
  bool IsOver() const LS_REQUIRES(mu_);

  const ClusterSpec cluster_;
  const std::string fingerprint_;
  const std::chrono::milliseconds heartbeat_;
  const OnRefused on_refused_;
  mutable Mutex mu_;
  MembershipView view_ LS_GUARDED_BY(mu_);
  std::vector<Time> heard_ LS_GUARDED_BY(mu_);
  std::vector<Stay> stays_ LS_GUARDED_BY(mu_);
  std::map<int, Refusal> refused_ LS_GUARDED_BY(mu_);
  Strangers strangers_ LS_GUARDED_BY(mu_);
  bool worked_ LS_GUARDED_BY(mu_) = false;
  std::list<Watcher> watchers_ LS_GUARDED_BY(mu_);
  std::list<Gathering> gatherings_ LS_GUARDED_BY(mu_);
  Barriers barriers_ LS_GUARDED_BY(mu_);
  KeyValueStore values_ LS_GUARDED_BY(mu_);
  Status closed_ LS_GUARDED_BY(mu_);
};

}  // namespace lockstep::cluster
