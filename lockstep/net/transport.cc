#include "lockstep/net/transport.h"

#include <fmt/format.h>

#include <utility>

#include "lockstep/net/internal/engine.h"

namespace lockstep::net {

Locate IntoTensor(Tensor* tensor) {
  return [tensor](const MessageHeader& header) -> Result<void*> {
    // The number of elements is below 2^62, so the product may overflow, but never to a match.
    const uint64_t elements = static_cast<uint64_t>(header.shape.num_elements());
    const uint64_t size = DTypeSize(header.dtype);
    if (header.bytes % size != 0 || header.bytes / size != elements) {
      return InvalidArgument(fmt::format("a message of {} bytes for a tensor {} {}", header.bytes,
                                         DTypeName(header.dtype), header.shape.ToString()));
    }
    LS_ASSIGN_OR_RETURN(*tensor, Tensor::Allocate(header.dtype, header.shape));
    return tensor->data();
  };
}

Transport::Transport(std::unique_ptr<Progress> progress, PeerId self,
                     std::vector<std::string> tasks)
    : engine_(std::make_unique<internal::Engine>(*progress, self, std::move(tasks))),
      progress_(std::move(progress)) {
  progress_->SetTimer([this] { return engine_->ExpireDeadlines(); });
}

Transport::~Transport() {
  Close(Deadline::After(std::chrono::seconds(1)));
}

PeerId Transport::self() const {
  return engine_->self();
}

int Transport::num_tasks() const {
  return static_cast<int>(engine_->tasks().size());
}

const std::string& Transport::task_name(PeerId task) const {
  return engine_->tasks().at(static_cast<size_t>(task));
}

void Transport::Send(PeerId to, const MessageKey& key, const MessageHeader& header,
                     const void* payload, const Deadline& deadline, SendDone done) {
  engine_->Send(to, key, header, payload, deadline, std::move(done));
}

void Transport::Recv(PeerId from, const MessageKey& key, void* buffer, uint64_t capacity,
                     const Deadline& deadline, RecvDone done) {
  engine_->Recv(
      from, key,
      [buffer, capacity](const MessageHeader& header) -> Result<void*> {
        if (header.bytes > capacity) {
          return InvalidArgument(
              fmt::format("a message of {} bytes for a buffer of {}", header.bytes, capacity));
        }
        return buffer;
      },
      deadline, std::move(done));
}

void Transport::Recv(PeerId from, const MessageKey& key, Locate locate, const Deadline& deadline,
                     RecvDone done) {
  engine_->Recv(from, key, std::move(locate), deadline, std::move(done));
}

void Transport::Abort(uint64_t scope, uint64_t step, const Status& why) {
  engine_->Abort(scope, step, why);
}

void Transport::AbortScope(uint64_t scope, const Status& why) {
  engine_->Abort(scope, internal::Engine::kWholeScope, why);
}

void Transport::AbortAt(PeerId peer, uint64_t scope, uint64_t step, const Status& why) {
  engine_->AbortAt(peer, scope, step, why);
}

void Transport::EndStep(uint64_t scope, uint64_t step) {
  engine_->End(scope, step);
}

void Transport::EndScope(uint64_t scope) {
  engine_->End(scope, internal::Engine::kWholeScope);
}

void Transport::FailPeer(PeerId peer, const Status& why) {
  engine_->FailPeer(peer, why);
}

Status Transport::peer_status(PeerId peer) const {
  return engine_->peer_status(peer);
}

uint64_t Transport::incarnation(PeerId peer) const {
  return engine_->incarnation(peer);
}

Result<LinkKind> Transport::link_kind(PeerId peer) const {
  return engine_->link_kind(peer);
}

LinkStats Transport::stats(PeerId peer) const {
  return engine_->stats(peer);
}

int64_t Transport::num_pending() const {
  return engine_->num_pending();
}

Result<std::shared_ptr<Region>> Transport::CreateRegion(size_t bytes) {
  return engine_->CreateRegion(bytes);
}

Result<std::shared_ptr<Region>> Transport::MapRegion(PeerId owner, uint64_t number,
                                                     const Deadline& deadline) {
  return engine_->MapRegion(owner, number, deadline);
}

Deadline Transport::After(std::chrono::milliseconds delay) const {
  return Deadline::At(progress_->Now() + delay);
}

void Transport::Close(const Deadline& deadline) {
  engine_->Close(deadline);
}

}  // namespace lockstep::net
