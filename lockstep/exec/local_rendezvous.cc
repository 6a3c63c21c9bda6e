#include "lockstep/exec/local_rendezvous.h"

#include <fmt/format.h>

namespace lockstep::exec {
namespace {

Status Twice(const TransferKey& key, std::string_view what) {
  return AlreadyExists(fmt::format("transfer {} of step {} is {} twice", key.item, key.step, what));
}

}  // namespace

LocalRendezvous::~LocalRendezvous() {
  const MutexLock lock(mu_);
  for (const auto& [id, step] : steps_) {
    for (const auto& [item, entry] : step.entries) {
      LS_CHECK(!entry.receiver);
    }
  }
}

void LocalRendezvous::Send(PeerNumber /*peer*/, const TransferKey& key, const Tensor& tensor,
                           SendDone done) {
  RecvDone receiver;
  Status status;
  {
    const MutexLock lock(mu_);
    Step& step = steps_[{key.scope, key.step}];
    status = step.aborted;
    if (status.ok()) {
      const auto [entry, is_new] = step.entries.try_emplace(key.item);
      if (is_new) {
        entry->second.tensor = tensor;
      } else if (entry->second.receiver) {
        receiver = std::move(entry->second.receiver);
        step.entries.erase(entry);
      } else {
        status = Twice(key, "sent");
      }
    }
  }
  if (receiver) {
    receiver(OkStatus(), tensor);
  }
  done(status);
}

void LocalRendezvous::Recv(PeerNumber /*peer*/, const TransferKey& key, const Tensor& /*into*/,
                           RecvDone done) {
  Tensor tensor;
  Status status;
  {
    const MutexLock lock(mu_);
    Step& step = steps_[{key.scope, key.step}];
    status = step.aborted;
    if (status.ok()) {
      const auto [entry, is_new] = step.entries.try_emplace(key.item);
      if (is_new) {
        entry->second.receiver = std::move(done);
        return;
      }
      if (entry->second.receiver) {
        status = Twice(key, "received");
      } else {
        tensor = std::move(entry->second.tensor);
        step.entries.erase(entry);
      }
    }
  }
  done(status, std::move(tensor));
}

void LocalRendezvous::Abort(uint64_t scope, uint64_t step_id, const Status& status) {
  LS_CHECK(!status.ok());
  std::unordered_map<uint64_t, Entry> entries;
  {
    const MutexLock lock(mu_);
    Step& step = steps_[{scope, step_id}];
    if (step.aborted.ok()) {
      step.aborted = status;
    }
    entries.swap(step.entries);
  }
  for (auto& [item, entry] : entries) {
    if (entry.receiver) {
      entry.receiver(status, Tensor());
    }
  }
}

void LocalRendezvous::Cleanup(uint64_t scope, uint64_t step_id) {
  const MutexLock lock(mu_);
  const auto step = steps_.find({scope, step_id});
  if (step != steps_.end()) {
    for (const auto& [item, entry] : step->second.entries) {
      LS_CHECK(!entry.receiver);
    }
    steps_.erase(step);
  }
}

size_t LocalRendezvous::num_steps() const {
  const MutexLock lock(mu_);
  return steps_.size();
}

}  // namespace lockstep::exec
