// RpcTensorSender: tensors to other tasks over their control channels, in frames of 1 MiB: the way
// that is always there, encrypted where control is.
#pragma once

#include <memory>

#include "lockstep/cluster/internal/channel_cache.h"
#include "lockstep/cluster/worker/step_link.h"

namespace lockstep::cluster::internal {

class RpcTensorSender : public TensorSender {
 public:
  RpcTensorSender(int self, std::shared_ptr<ChannelCache> channels)
      : self_(self), channels_(std::move(channels)) {}

  std::shared_ptr<Pending> Send(int peer, const exec::TransferKey& key, const Tensor& tensor,
                                const Deadline& deadline,
                                std::function<void(const Status&)> done) override;

 private:
  const int self_;
  const std::shared_ptr<ChannelCache> channels_;
};

}  // namespace lockstep::cluster::internal
