// Which algorithm a call takes, in one place.
#include <algorithm>

#include "lockstep/collective/internal/algorithms.h"

namespace lockstep::collective::internal {
namespace {

// Up to here a member's messages to all others cost less than a second round of them.
constexpr size_t kGatherBytes = size_t{32} << 10;

}  // namespace

Result<std::vector<void*>> Scratch::Take(size_t count, size_t bytes) {
  const size_t stride = (bytes + Buffer::kAlignment - 1) / Buffer::kAlignment * Buffer::kAlignment;
  size_t total = 0;
  if (__builtin_mul_overflow(stride, count, &total)) {
    return ResourceExhausted("no memory for what the other members send");
  }
  if (buffer_ == nullptr || buffer_->size() < total) {
    buffer_ = nullptr;
    LS_ASSIGN_OR_RETURN(buffer_, Buffer::Allocate(std::max(total, Buffer::kAlignment)));
  }
  std::vector<void*> pieces(count);
  for (size_t i = 0; i < count; ++i) {
    pieces[i] = static_cast<std::byte*>(buffer_->data()) + i * stride;
  }
  return pieces;
}

Algorithm ChooseAlgorithm(const CallRun& run) {
  const Algorithm asked = run.call.spec.algorithm;
  const bool shared = run.io.shared_memory() != nullptr && run.call.reduces();
  if (shared && (asked == Algorithm::kAuto || asked == Algorithm::kShared)) {
    return Algorithm::kShared;
  }
  const bool whole = run.call.kind == CallKind::kAllReduce || run.call.kind == CallKind::kReduce;
  if (!whole) {
    return Algorithm::kGather;
  }
  if (asked == Algorithm::kGather || asked == Algorithm::kPairwise) {
    return asked;
  }
  const size_t sent = run.bytes() * static_cast<size_t>(run.group.members() - 1);
  return sent <= kGatherBytes ? Algorithm::kGather : Algorithm::kPairwise;
}

}  // namespace lockstep::collective::internal
