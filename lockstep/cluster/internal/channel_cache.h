// ChannelCache: the control channels of one task to the others, made when first used. Thread-safe.
#pragma once

#include <map>
#include <memory>

#include "lockstep/base/mutex.h"
#include "lockstep/cluster/internal/rpc_channel.h"
#include "lockstep/cluster/spec/cluster_spec.h"

namespace lockstep::cluster::internal {

class ChannelCache {
 public:
  ChannelCache(ClusterSpec cluster, SecurityOptions security)
      : cluster_(std::move(cluster)), security_(std::move(security)) {}

  // By number; which there must be.
  Result<std::shared_ptr<RpcChannel>> Get(int number) LS_EXCLUDES(mu_) {
    const MutexLock lock(mu_);
    std::shared_ptr<RpcChannel>& channel = channels_[number];
    if (channel == nullptr) {
      const ClusterSpec::Task& task = cluster_.tasks()[static_cast<size_t>(number)];
      LS_ASSIGN_OR_RETURN(channel, RpcChannel::Create({.address = task.address,
                                                       .peer = task.id.ToString(),
                                                       .security = security_}));
    }
    return channel;
  }

 private:
  const ClusterSpec cluster_;
  const SecurityOptions security_;
  Mutex mu_;
  std::map<int, std::shared_ptr<RpcChannel>> channels_ LS_GUARDED_BY(mu_);
};

}  // namespace lockstep::cluster::internal
