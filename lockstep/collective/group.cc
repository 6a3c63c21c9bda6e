#include "lockstep/collective/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "lockstep/base/philox.h"
#include "lockstep/collective/internal/algorithms.h"
#include "lockstep/collective/internal/host_level.h"

namespace lockstep::collective {

using internal::CallIo;
using internal::CallQueue;
using internal::CallRun;
using internal::GroupInfo;
using internal::HostLevel;
using internal::MemberList;
using internal::SharedMemory;
using internal::SharedRegions;

namespace {

std::string DescribeGroup(const net::Transport& transport, const GroupOptions& options) {
  std::string tasks;
  for (const net::PeerId task : options.tasks) {
    tasks += fmt::format("{}{}", tasks.empty() ? "" : ", ", transport.task_name(task));
  }
  std::string text = fmt::format("Create: group '{}' generation {} of {} with {} replicas",
                                 options.name, options.generation, tasks, options.replicas);
  if (!options.hosts.empty()) {
    text += fmt::format(" on hosts {}", fmt::join(options.hosts, ","));
  }
  return text;
}

Status CheckOptions(const net::Transport& transport, const GroupOptions& options) {
  std::vector<net::PeerId> sorted = options.tasks;
  std::sort(sorted.begin(), sorted.end());
  for (const net::PeerId task : sorted) {
    if (task < 0 || task >= transport.num_tasks()) {
      return InvalidArgument(fmt::format("group '{}': there is no task {}: tasks are 0 to {}",
                                         options.name, task, transport.num_tasks() - 1));
    }
  }
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) {
    return InvalidArgument(
        fmt::format("group '{}': {} is named twice", options.name, transport.task_name(*twice)));
  }
  if (std::find(sorted.begin(), sorted.end(), transport.self()) == sorted.end()) {
    return InvalidArgument(fmt::format("group '{}': {} is no member", options.name,
                                       transport.task_name(transport.self())));
  }
  if (!options.hosts.empty() && options.hosts.size() != options.tasks.size()) {
    return InvalidArgument(fmt::format("group '{}': hosts of {} members: there are {}",
                                       options.name, options.hosts.size(), options.tasks.size()));
  }
  if (options.replicas < 0) {
    return InvalidArgument(fmt::format("group '{}': {} replicas", options.name, options.replicas));
  }
  return OkStatus();
}

}  // namespace

class Group::Impl {
 public:
  Impl(net::Transport& transport, const GroupOptions& options, uint64_t scope, int self)
      : info_(transport, options.name, scope, options.tasks, self, options.replicas),
        queue_(std::make_shared<CallQueue>([this](const Call& call, const Deadline& deadline) {
          return Execute(call, deadline);
        })) {}

  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  ~Impl() {
    queue_->Close();
    info_.transport.EndScope(info_.scope);
  }

  const GroupInfo& info() const { return info_; }

  const std::shared_ptr<CallQueue>& queue() const { return queue_; }

  // Call 0: that all members create the same group, and which of them share memory.
  Status Meet(const std::string& description, const GroupOptions& options,
              const Deadline& deadline) {
    const Status met = MeetAndMap(description, options, deadline);
    return met.ok() ? met : Break(met).With("Group::Create");
  }

  void Abort(const Status& why) {
    const Status cause = Break(
        Unavailable(fmt::format("{} gave up: {}", info_.task_name(info_.self), why.ToString())));
    MutexLock lock(mu_);
    broken_ = broken_.ok() ? cause : broken_;
  }

  SharedRegions& regions() { return regions_; }

  bool shares_memory() const { return memory_ != nullptr; }

  Status status() const {
    MutexLock lock(mu_);
    return broken_;
  }

 private:
  // Sends every other member a number, and takes theirs.
  Status Exchange(CallIo& io, uint64_t mine, std::vector<uint64_t>* theirs) {
    theirs->assign(info_.tasks.size(), mine);
    std::vector<internal::Parcel> parcels;
    std::vector<internal::Slot> slots;
    for (int member = 0; member < info_.members(); ++member) {
      if (member != info_.self) {
        parcels.push_back({member, &mine, sizeof(mine)});
        slots.push_back({member, &(*theirs)[static_cast<size_t>(member)], sizeof(mine)});
      }
    }
    return io.Meet(parcels, slots);
  }

  // The first member, counted from 1, that is on the host of this one; 0 if this one does without
  // shared memory.
  uint64_t HostLeader(const GroupOptions& options) const {
    int leader = options.shared_memory ? 0 : info_.members();
    while (leader < info_.members() && !OnOneHost(options, leader)) {
      ++leader;
    }
    return leader < info_.members() ? static_cast<uint64_t>(leader) + 1 : 0;
  }

  bool OnOneHost(const GroupOptions& options, int member) const {
    const auto at = static_cast<size_t>(member);
    return SharedMemory::CanShare(info_, member) &&
           (options.hosts.empty() ||
            options.hosts[at] == options.hosts[static_cast<size_t>(info_.self)]);
  }

  Status MeetAndMap(const std::string& description, const GroupOptions& options,
                    const Deadline& deadline) {
    CallIo io(info_, 0, description, deadline, nullptr, Codec::kNone);
    std::vector<uint64_t> leaders;
    LS_TRY(Exchange(io, HostLeader(options), &leaders));
    if (info_.members() == 1 || std::find(leaders.begin(), leaders.end(), 0) != leaders.end()) {
      return OkStatus();
    }
    const bool one_host =
        std::adjacent_find(leaders.begin(), leaders.end(), std::not_equal_to<>()) == leaders.end();
    std::unique_ptr<HostLevel> hosts = one_host ? nullptr : HostLevel::Create(info_, leaders);
    if (!one_host && hosts == nullptr) {
      return OkStatus();
    }
    const MemberList& sharing = one_host ? info_ : hosts->local();
    Result<std::unique_ptr<SharedMemory>> made = SharedMemory::Create(sharing);
    std::unique_ptr<SharedMemory> memory = made.ok() ? std::move(made).value() : nullptr;
    std::vector<uint64_t> numbers;
    LS_TRY(Exchange(io, memory != nullptr ? memory->region_number() : 0, &numbers));
    if (std::find(numbers.begin(), numbers.end(), 0) != numbers.end()) {
      return OkStatus();
    }
    // Who cannot map is known to all before anybody counts on it.
    const int first = one_host ? 0 : hosts->first_member(hosts->host());
    const Status mapped = memory->Map(std::span<const uint64_t>(numbers).subspan(
                                          static_cast<size_t>(first), sharing.tasks.size()),
                                      deadline);
    LS_TRY(Exchange(io, mapped.ok() ? 1 : 0, &numbers));
    if (std::find(numbers.begin(), numbers.end(), 0) != numbers.end()) {
      return OkStatus();
    }
    if (one_host) {
      memory_ = std::move(memory);
    } else {
      hosts->memory = std::move(memory);
      hosts_ = std::move(hosts);
    }
    return OkStatus();
  }

  // One at a time, in order of the calls.
  Status Execute(const Call& call, const Deadline& deadline) {
    LS_TRY(status());
    const uint64_t sequence = ++sequence_;
    const std::string description = Describe(call);
    CallIo io(info_, sequence, description, deadline, memory_.get(), call.spec.codec);
    CallRun run{.call = call,
                .group = info_,
                .io = io,
                .scratch = scratch_,
                .regions = regions_,
                .hosts = hosts_.get()};
    const Status ended = Carry(run);
    if (ended.ok()) {
      return ended;
    }
    const Status cause = Break(ended).With(
        fmt::format("call {} of group '{}': {}", sequence, info_.name, description));
    MutexLock lock(mu_);
    broken_ = cause;
    return cause;
  }

  Status Carry(CallRun& run) {
    const Status fits = CheckCall(run.call, info_.map, info_.self);
    if (!fits.ok()) {
      return Status(fits.code(),
                    fmt::format("{}: {}", info_.task_name(info_.self), fits.message()));
    }
    switch (internal::ChooseAlgorithm(run)) {
      case Algorithm::kPairwise:
        return internal::RunPairwise(run);
      case Algorithm::kHalvingDoubling:
        return internal::RunHalvingDoubling(run);
      case Algorithm::kTwoLevel:
        return internal::RunTwoLevel(run);
      case Algorithm::kShared:
        return internal::RunShared(run);
      case Algorithm::kAuto:
      case Algorithm::kGather:
        break;
    }
    return internal::RunGather(run);
  }

  // Ends everything of the group, here and at the other members.
  Status Break(const Status& why) {
    const Status bare = internal::WithoutContext(why);
    if (memory_ != nullptr) {
      memory_->Break();
    }
    if (hosts_ != nullptr) {
      hosts_->memory->Break();
    }
    info_.transport.AbortScope(info_.scope, bare);
    for (const net::PeerId task : info_.tasks) {
      if (task != info_.transport.self()) {
        info_.transport.AbortAt(task, info_.scope, kWholeScope, bare);
      }
    }
    return bare;
  }

  // Of Transport::AbortAt: all steps.
  static constexpr uint64_t kWholeScope = UINT64_MAX;

  const GroupInfo info_;
  uint64_t sequence_ = 0;      // of the latest call
  internal::Scratch scratch_;  // of the call that is running
  SharedRegions regions_;
  std::unique_ptr<SharedMemory> memory_;  // null: messages only
  std::unique_ptr<HostLevel> hosts_;      // null: members are on one host, or on one each
  mutable Mutex mu_;
  Status broken_ LS_GUARDED_BY(mu_);
  std::shared_ptr<CallQueue> queue_;
};

Result<std::unique_ptr<Group>> Group::Create(net::Transport& transport, const GroupOptions& options,
                                             const Deadline& deadline) {
  LS_TRY(CheckOptions(transport, options));
  GroupOptions checked = options;
  if (checked.replicas == 0) {
    checked.replicas = static_cast<int64_t>(checked.tasks.size());
  }
  const uint64_t scope =
      StableHash(fmt::format("collective group {} {}", checked.generation, checked.name));
  const auto self = std::find(checked.tasks.begin(), checked.tasks.end(), transport.self());
  auto impl = std::make_unique<Impl>(transport, checked, scope,
                                     static_cast<int>(self - checked.tasks.begin()));
  LS_TRY(impl->Meet(DescribeGroup(transport, checked), checked, deadline));
  return std::make_unique<Group>(Token(), std::move(impl));
}

Result<std::unique_ptr<Group>> Group::Create(std::shared_ptr<net::Transport> transport,
                                             const GroupOptions& options,
                                             const Deadline& deadline) {
  LS_ASSIGN_OR_RETURN(std::unique_ptr<Group> group, Create(*transport, options, deadline));
  group->transport_ = std::move(transport);
  return group;
}

Group::Group(Token, std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Group::~Group() = default;

const std::string& Group::name() const {
  return impl_->info().name;
}

int Group::self() const {
  return impl_->info().self;
}

int Group::members() const {
  return impl_->info().members();
}

std::string Group::member_name(int member) const {
  return impl_->info().task_name(member);
}

const ReplicaMap& Group::map() const {
  return impl_->info().map;
}

Result<std::shared_ptr<net::Region>> Group::Allocate(size_t bytes) {
  return impl_->regions().Allocate(impl_->info().transport, bytes);
}

Deadline Group::After(std::chrono::milliseconds delay) const {
  return impl_->info().transport.After(delay);
}

Status Group::Run(Call call, const Deadline& deadline) {
  CallQueue& queue = *impl_->queue();
  return queue.Wait(*queue.Add(std::move(call), deadline, nullptr, false));
}

Work Group::Start(Call call, const Deadline& deadline, Done done) {
  const std::shared_ptr<CallQueue>& queue = impl_->queue();
  return {queue, queue->Add(std::move(call), deadline, std::move(done), true)};
}

void Group::Abort(const Status& why) {
  impl_->Abort(why);
}

bool Group::shares_memory() const {
  return impl_->shares_memory();
}

Status Group::status() const {
  return impl_->status();
}

}  // namespace lockstep::collective
