#include "lockstep/cluster/worker/step_link.h"

#include <fmt/format.h>

#include <utility>

namespace lockstep::cluster {
namespace {

net::MessageKey MessageKeyOf(const exec::TransferKey& key) {
  return {.scope = key.scope, .step = key.step, .item = key.item};
}

}  // namespace

void StepLink::Send(exec::PeerNumber peer, const exec::TransferKey& key, const Tensor& tensor,
                    SendDone done) {
  if (peer == exec::kThisTask) {
    local_.Send(peer, key, tensor, std::move(done));
    return;
  }
  transport_.Send(peer, MessageKeyOf(key), net::HeaderOf(tensor), tensor.data(), deadline_,
                  // The tensor stays until it is sent.
                  [tensor, done = std::move(done)](const Status& status) { done(status); });
}

void StepLink::Recv(exec::PeerNumber peer, const exec::TransferKey& key, const Tensor& into,
                    RecvDone done) {
  if (peer == exec::kThisTask) {
    local_.Recv(peer, key, into, std::move(done));
    return;
  }
  auto locate = [into](const net::MessageHeader& header) -> Result<void*> {
    if (header.dtype != into.dtype() || !(header.shape == into.shape()) ||
        header.bytes != into.bytes()) {
      return InvalidArgument(fmt::format("a message of {} {} in {} bytes, expected {} {} in {}",
                                         DTypeName(header.dtype), header.shape.ToString(),
                                         header.bytes, DTypeName(into.dtype()),
                                         into.shape().ToString(), into.bytes()));
    }
    return into.data();
  };
  transport_.Recv(peer, MessageKeyOf(key), std::move(locate), deadline_,
                  [into, done = std::move(done)](const Status& status, const net::MessageHeader&) {
                    done(status, status.ok() ? into : Tensor());
                  });
}

void StepLink::Abort(uint64_t scope, uint64_t step, const Status& status) {
  local_.Abort(scope, step, status);
  transport_.Abort(scope, step, status);
}

void StepLink::Cleanup(uint64_t scope, uint64_t step) {
  local_.Cleanup(scope, step);
  transport_.EndStep(scope, step);
}

}  // namespace lockstep::cluster
