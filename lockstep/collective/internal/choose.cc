// Which algorithm a call takes, in one place.
#include <algorithm>
#include <limits>

#include "lockstep/collective/internal/algorithms.h"

namespace lockstep::collective::internal {
namespace {

// What joins the members.
enum class Links {
  kAny,
  kMemory,    // all share memory
  kMessages,  // not all do
};

// The first rule that fits, and whose algorithm can carry out the call, is taken.
struct Rule {
  Algorithm algorithm;
  Links links;
  int min_members;
  size_t max_bytes;  // of the value times the number of other members
};

constexpr size_t kAnySize = std::numeric_limits<size_t>::max();

constexpr Rule kRules[] = {
    {Algorithm::kShared, Links::kMemory, 1, kAnySize},
    // Up to here a member's messages to all others cost less than a second round of them.
    {Algorithm::kGather, Links::kAny, 1, size_t{32} << 10},
    // Between hosts goes what a host holds, once.
    {Algorithm::kTwoLevel, Links::kMessages, 3, kAnySize},
    // Messages of a slice each are small here: fewer ones in more rounds are cheaper.
    {Algorithm::kHalvingDoubling, Links::kMessages, 8, size_t{1} << 20},
    {Algorithm::kPairwise, Links::kAny, 1, kAnySize},
    {Algorithm::kGather, Links::kAny, 1, kAnySize},
};

bool CanCarryOut(Algorithm algorithm, const CallRun& run) {
  const CallKind kind = run.call.kind;
  const bool whole = kind == CallKind::kAllReduce || kind == CallKind::kReduce;
  switch (algorithm) {
    case Algorithm::kAuto:
      return false;
    case Algorithm::kGather:
      return true;
    case Algorithm::kPairwise:
      return whole;
    case Algorithm::kHalvingDoubling:
      return whole && run.group.balanced;
    case Algorithm::kTwoLevel:
      return whole && run.hosts != nullptr;
    case Algorithm::kShared:
      return run.call.reduces() && run.io.shared_memory() != nullptr;
  }
  return false;
}

bool Fits(const Rule& rule, const CallRun& run) {
  const Links links = run.io.shared_memory() != nullptr ? Links::kMemory : Links::kMessages;
  const size_t others = static_cast<size_t>(run.group.members() - 1);
  return (rule.links == Links::kAny || rule.links == links) &&
         run.group.members() >= rule.min_members &&
         (rule.max_bytes == kAnySize || run.bytes() * others <= rule.max_bytes);
}

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
  if (CanCarryOut(asked, run)) {
    return asked;
  }
  const auto* rule = std::find_if(std::begin(kRules), std::end(kRules), [&](const Rule& one) {
    return Fits(one, run) && CanCarryOut(one.algorithm, run);
  });
  return rule == std::end(kRules) ? Algorithm::kGather : rule->algorithm;
}

}  // namespace lockstep::collective::internal
