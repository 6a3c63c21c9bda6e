#include "lockstep/cluster/internal/rpc_tensor_sender.h"

#include "lockstep/cluster/internal/tensor_codec.h"
#include "lockstep/cluster/internal/worker_methods.h"

namespace lockstep::cluster::internal {
namespace {

class PendingSend : public TensorSender::Pending {
 public:
  explicit PendingSend(std::shared_ptr<RpcPending> pending) : pending_(std::move(pending)) {}

  void Cancel() override {
    if (pending_ != nullptr) {
      pending_->Cancel();
    }
  }

 private:
  const std::shared_ptr<RpcPending> pending_;
};

}  // namespace

std::shared_ptr<TensorSender::Pending> RpcTensorSender::Send(
    int peer, const exec::TransferKey& key, const Tensor& tensor, const Deadline& deadline,
    std::function<void(const Status&)> done) {
  wire::PutTensorRequest request;
  request.set_from(self_);
  request.set_scope(key.scope);
  request.set_step(key.step);
  request.set_item(key.item);
  *request.mutable_tensor() = MetaOf(tensor);
  Result<std::shared_ptr<RpcChannel>> channel = channels_->Get(peer);
  Result<std::string> body = PackTensors(request, {&tensor, 1});
  if (!channel.ok() || !body.ok()) {
    done(channel.ok() ? body.status() : channel.status());
    return std::make_shared<PendingSend>(nullptr);
  }
  return std::make_shared<PendingSend>((*channel)->Start(
      worker_method::kPutTensor, std::move(body).value(), {.deadline = deadline},
      [done = std::move(done)](const Result<std::string>& reply) { done(reply.status()); }));
}

}  // namespace lockstep::cluster::internal
