#include "lockstep/cluster/coordinator/coordinator.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

namespace lockstep::cluster {
namespace {

void Run(const std::vector<std::function<void()>>& calls) {
  for (const auto& call : calls) {
    call();
  }
}

double Seconds(Deadline::Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

Result<std::unique_ptr<Coordinator>> Coordinator::Create(ClusterSpec cluster,
                                                         std::chrono::milliseconds heartbeat,
                                                         OnRefused on_refused) {
  if (heartbeat < std::chrono::milliseconds(1)) {
    return InvalidArgument("the heartbeat is at least 1 ms");
  }
  LS_ASSIGN_OR_RETURN(std::string fingerprint, cluster.Fingerprint());
  return std::make_unique<Coordinator>(std::move(cluster), std::move(fingerprint), heartbeat,
                                       std::move(on_refused));
}

Coordinator::Coordinator(ClusterSpec cluster, std::string fingerprint,
                         std::chrono::milliseconds heartbeat, OnRefused on_refused)
    : cluster_(std::move(cluster)),
      fingerprint_(std::move(fingerprint)),
      heartbeat_(heartbeat),
      on_refused_(std::move(on_refused)) {
  stays_.resize(static_cast<size_t>(cluster_.size()));
  view_.members.resize(static_cast<size_t>(cluster_.size()));
  heard_.resize(static_cast<size_t>(cluster_.size()));
}

std::string Coordinator::NameOf(int number) const {
  return cluster_.tasks()[static_cast<size_t>(number)].id.ToString();
}

Status Coordinator::CheckNumbers(const std::vector<int>& numbers) const {
  for (const int number : numbers) {
    if (number < 0 || number >= cluster_.size()) {
      return InvalidArgument(
          fmt::format("there is no task {} in a cluster of {}", number, cluster_.size()));
    }
  }
  return OkStatus();
}

Status Coordinator::CheckCluster(const Registration& registration) const {
  if (registration.fingerprint != fingerprint_) {
    const Result<ClusterSpec> there = ClusterSpec::FromJson(registration.cluster);
    return FailedPrecondition(fmt::format(
        "{} holds another description of the cluster than its coordinator: {}", registration.name,
        there.ok() ? cluster_.Difference(*there) : there.status().message()));
  }
  LS_TRY(CheckNumbers({registration.task.number}));
  if (registration.name != NameOf(registration.task.number) || registration.task.incarnation == 0) {
    return InvalidArgument(fmt::format("task {} is {}, not {}", registration.task.number,
                                       NameOf(registration.task.number), registration.name));
  }
  return OkStatus();
}

Status Coordinator::Register(const Registration& registration, Time now) {
  const Status status = Admit(registration, now);
  if (!status.ok()) {
    NoteRefusal(registration, status, now);
  }
  return status;
}

void Coordinator::NoteRefusal(const Registration& registration, const Status& why, Time now) {
  // The number may be one of another description; without a name of ours it is nobody's refusal.
  const Result<TaskId> id = TaskId::Parse(registration.name);
  const std::optional<int> number = id.ok() ? cluster_.NumberOf(*id) : std::nullopt;
  {
    const MutexLock lock(mu_);
    if (!number || !closed_.ok()) {
      return;
    }
    const Refusal refusal = {registration.task.incarnation, now, why.message()};
    const auto [known, is_new] = refused_.insert({*number, refusal});
    const bool told = !is_new && known->second.incarnation == refusal.incarnation;
    known->second = refusal;
    if (told || !on_refused_) {
      return;
    }
  }
  on_refused_(fmt::format("{} is refused: {}", NameOf(*number), why.message()));
}

void Coordinator::NoteStranger(const std::string& peer, Time now) {
  constexpr std::chrono::seconds kQuiet{1};
  {
    const MutexLock lock(mu_);
    const bool tell = strangers_.count == 0 || now - strangers_.told >= kQuiet;
    ++strangers_.count;
    strangers_.last = peer;
    strangers_.at = now;
    if (!tell || !on_refused_) {
      return;
    }
    strangers_.told = now;
  }
  on_refused_(
      fmt::format("a caller at {} is refused: it does not know the secret of this job", peer));
}

Status Coordinator::Admit(const Registration& registration, Time now) {
  LS_TRY(CheckCluster(registration));
  Calls calls;
  {
    const MutexLock lock(mu_);
    LS_TRY(closed_);
    const int number = registration.task.number;
    Member& member = view_.members[static_cast<size_t>(number)];
    if (member.present() && member.incarnation != registration.task.incarnation) {
      return AlreadyExists(fmt::format(
          "{} is taken: another process with this name is in the job, heard of {:.2g} s ago",
          registration.name, Seconds(now - heard_[static_cast<size_t>(number)])));
    }
    heard_[static_cast<size_t>(number)] = now;
    if (!member.present()) {
      member.incarnation = registration.task.incarnation;
      refused_.erase(number);
      Change(number, MemberState::kActive, OkStatus(), calls);
      AnswerGatherings(now, calls);
    }
  }
  Run(calls);
  return OkStatus();
}

Status Coordinator::Hear(const TaskStart& task, Time now) {
  LS_TRY(closed_);
  LS_TRY(CheckNumbers({task.number}));
  const Member& member = view_.members[static_cast<size_t>(task.number)];
  if (member.incarnation != task.incarnation || !member.present()) {
    return Aborted(
        fmt::format("{} is not in the job{}", NameOf(task.number),
                    member.state == MemberState::kLost
                        ? fmt::format(": it was declared lost ({})", member.reason.message())
                        : std::string()));
  }
  heard_[static_cast<size_t>(task.number)] = now;
  return OkStatus();
}

Status Coordinator::Heartbeat(const TaskStart& task, Time now) {
  const MutexLock lock(mu_);
  return Hear(task, now);
}

Status Coordinator::SetJoined(const TaskStart& task, bool joined, Time now) {
  Calls calls;
  {
    const MutexLock lock(mu_);
    LS_TRY(Hear(task, now));
    Change(task.number, joined ? MemberState::kJoined : MemberState::kActive, OkStatus(), calls);
  }
  Run(calls);
  return OkStatus();
}

Status Coordinator::Leave(const TaskStart& task, const Status& why, Time now) {
  Calls calls;
  {
    const MutexLock lock(mu_);
    LS_TRY(Hear(task, now));
    worked_ =
        worked_ || view_.members[static_cast<size_t>(task.number)].state == MemberState::kActive;
    barriers_.Fail(task.number, Unavailable(fmt::format("{} has left", NameOf(task.number))),
                   calls);
    Change(task.number, MemberState::kLeft, why, calls);
    AnswerGatherings(Time::min(), calls);
  }
  Run(calls);
  return OkStatus();
}

MembershipView Coordinator::view() const {
  const MutexLock lock(mu_);
  return view_;
}

void Coordinator::Change(int number, MemberState state, const Status& reason, Calls& calls) {
  Member& member = view_.members[static_cast<size_t>(number)];
  if (member.state == state) {
    return;
  }
  Stay& stay = stays_[static_cast<size_t>(number)];
  const bool was_present = member.present();
  member.state = state;
  member.reason = reason;
  ++view_.number;
  if (member.present() && !was_present) {
    stay.came = view_.number;
  } else if (!member.present()) {
    stay.left = view_.number;
  }
  view_.job_over = IsOver();
  AnswerWatchers(Time::min(), calls);
}

bool Coordinator::IsOver() const {
  return worked_ && std::none_of(view_.members.begin(), view_.members.end(),
                                 [](const Member& m) { return m.state == MemberState::kActive; });
}

void Coordinator::Watch(uint64_t after, const Deadline& deadline, ViewDone done) {
  Calls calls;
  {
    const MutexLock lock(mu_);
    if (!closed_.ok()) {
      calls.push_back([done, why = closed_] { done(why); });
    } else {
      watchers_.push_back({after, deadline, std::move(done)});
      AnswerWatchers(Time::min(), calls);
    }
  }
  Run(calls);
}

void Coordinator::AnswerWatchers(Time now, Calls& calls) {
  for (auto it = watchers_.begin(); it != watchers_.end();) {
    if (view_.number > it->after || it->deadline.when() <= now) {
      calls.push_back([done = std::move(it->done), view = view_] { done(view); });
      it = watchers_.erase(it);
    } else {
      ++it;
    }
  }
}

std::vector<int> Coordinator::Missing(const Gathering& gathering) const {
  std::vector<int> missing;
  for (const int number : gathering.numbers) {
    const Member& member = view_.members[static_cast<size_t>(number)];
    const bool was_there = member.state == MemberState::kLeft &&
                           stays_[static_cast<size_t>(number)].left > gathering.since;
    if (!member.present() && !was_there) {
      missing.push_back(number);
    }
  }
  return missing;
}

Status Coordinator::GaveUp(const Gathering& gathering) const {
  for (const int number : gathering.numbers) {
    const Member& member = view_.members[static_cast<size_t>(number)];
    if (member.state == MemberState::kLeft && !member.reason.ok() &&
        stays_[static_cast<size_t>(number)].left > gathering.since) {
      return Unavailable(fmt::format("{} gave up: {}", NameOf(number), member.reason.ToString()));
    }
  }
  return OkStatus();
}

std::string Coordinator::WhyMissing(const std::vector<int>& missing, Time now) const {
  constexpr size_t kShown = 3;
  std::vector<std::string> reasons;
  for (const int number : missing) {
    const Member& member = view_.members[static_cast<size_t>(number)];
    const auto refused = refused_.find(number);
    if (reasons.size() == kShown) {
      break;
    }
    if (refused != refused_.end()) {
      reasons.push_back(fmt::format("{} was refused {:.2g} s ago: {}", NameOf(number),
                                    Seconds(now - refused->second.at), refused->second.why));
    } else if (member.state == MemberState::kLost) {
      reasons.push_back(member.reason.message());
    }
  }
  if (strangers_.count > 0) {
    reasons.push_back(fmt::format("{} without the secret of this job, the last at {}, {:.2g} s ago",
                                  strangers_.count == 1
                                      ? "a caller was refused"
                                      : fmt::format("{} callers were refused", strangers_.count),
                                  strangers_.last, Seconds(now - strangers_.at)));
  }
  return reasons.empty() ? "" : fmt::format("; {}", fmt::join(reasons, "; "));
}

void Coordinator::WaitForTasks(const TaskStart& task, std::vector<int> numbers,
                               const Deadline& deadline, Done done) {
  Calls calls;
  {
    const MutexLock lock(mu_);
    Status status = closed_.ok() ? CheckNumbers(numbers) : closed_;
    if (status.ok()) {
      status = CheckNumbers({task.number});
    }
    if (!status.ok()) {
      calls.push_back([done, status] { done(status); });
    } else {
      gatherings_.push_back({stays_[static_cast<size_t>(task.number)].came, std::move(numbers),
                             deadline, std::move(done)});
      AnswerGatherings(Time::min(), calls);
    }
  }
  Run(calls);
}

void Coordinator::AnswerGatherings(Time now, Calls& calls) {
  for (auto it = gatherings_.begin(); it != gatherings_.end();) {
    const std::vector<int> missing = Missing(*it);
    Status status = GaveUp(*it);
    if (status.ok() && !missing.empty()) {
      if (it->deadline.when() > now) {
        ++it;
        continue;
      }
      status = DeadlineExceeded(
          fmt::format("still waiting for {} of {} tasks: {}{}", missing.size(), it->numbers.size(),
                      ListTasks(cluster_, missing), WhyMissing(missing, now)));
    }
    calls.push_back([done = std::move(it->done), status] { done(status); });
    it = gatherings_.erase(it);
  }
}

void Coordinator::Barrier(const TaskStart& task, const std::string& name, std::vector<int> numbers,
                          const Deadline& deadline, Done done, Time now) {
  Calls calls;
  {
    const MutexLock lock(mu_);
    if (numbers.empty()) {
      numbers.resize(static_cast<size_t>(cluster_.size()));
      std::iota(numbers.begin(), numbers.end(), 0);
    }
    Status status = Hear(task, now);
    if (status.ok()) {
      status = CheckNumbers(numbers);
    }
    for (const int number : numbers) {
      if (!status.ok()) {
        break;
      }
      // Who was here and is no more will not come.
      const Member& member = view_.members[static_cast<size_t>(number)];
      if (member.state == MemberState::kLeft || member.state == MemberState::kLost) {
        status = Unavailable(fmt::format("{} is {}, and the barrier '{}' needs it", NameOf(number),
                                         MemberStateName(member.state), name));
      }
    }
    if (status.ok()) {
      barriers_.Arrive(cluster_, task.number, name, std::move(numbers), deadline, std::move(done),
                       calls);
    } else {
      calls.push_back([done, status] { done(status); });
    }
  }
  Run(calls);
}

Status Coordinator::Insert(const std::string& key, std::string value, bool overwrite) {
  Calls calls;
  {
    const MutexLock lock(mu_);
    LS_TRY(closed_);
    LS_TRY(values_.Insert(key, std::move(value), overwrite, calls));
  }
  Run(calls);
  return OkStatus();
}

void Coordinator::Get(const std::string& key, const Deadline& deadline, KeyValueStore::Done done) {
  Calls calls;
  {
    const MutexLock lock(mu_);
    if (!closed_.ok()) {
      calls.push_back([done, why = closed_] { done(why); });
    } else {
      values_.Get(key, deadline, std::move(done), calls);
    }
  }
  Run(calls);
}

KeyValueStore::Entries Coordinator::List(const std::string& prefix) const {
  const MutexLock lock(mu_);
  return values_.List(prefix);
}

int Coordinator::Delete(const std::string& key, bool directory) {
  const MutexLock lock(mu_);
  return values_.Delete(key, directory);
}

void Coordinator::Advance(Time now) {
  Calls calls;
  {
    const MutexLock lock(mu_);
    const auto silent = heartbeat_ * 3 / 2;
    for (int number = 0; number < cluster_.size(); ++number) {
      const auto at = static_cast<size_t>(number);
      if (view_.members[at].present() && now - heard_[at] > silent) {
        const Status why =
            Unavailable(fmt::format("{} is lost: nothing was heard of it for {:.3g} s",
                                    NameOf(number), Seconds(now - heard_[at])));
        barriers_.Fail(number, why, calls);
        Change(number, MemberState::kLost, why, calls);
      }
    }
    AnswerWatchers(now, calls);
    AnswerGatherings(now, calls);
    barriers_.Expire(cluster_, now, calls);
    values_.Expire(now, calls);
  }
  Run(calls);
}

void Coordinator::Close(const Status& why) {
  Calls calls;
  {
    const MutexLock lock(mu_);
    closed_ = why;
    for (Watcher& watcher : watchers_) {
      calls.push_back([done = std::move(watcher.done), why] { done(why); });
    }
    watchers_.clear();
    for (Gathering& gathering : gatherings_) {
      calls.push_back([done = std::move(gathering.done), why] { done(why); });
    }
    gatherings_.clear();
    barriers_.FailAll(why, calls);
    values_.FailAll(why, calls);
  }
  Run(calls);
}

}  // namespace lockstep::cluster
