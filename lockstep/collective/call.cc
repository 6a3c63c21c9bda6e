#include "lockstep/collective/call.h"

#include <fmt/format.h>

#include <numeric>
#include <utility>

namespace lockstep::collective {
namespace {

Call MakeCall(CallKind kind, CallSpec spec, std::vector<const void*> inputs, void* output) {
  return {.kind = kind, .spec = std::move(spec), .inputs = std::move(inputs), .output = output};
}

bool HasRoot(CallKind kind) {
  return kind == CallKind::kReduce || kind == CallKind::kBroadcast || kind == CallKind::kGather ||
         kind == CallKind::kScatter;
}

bool HasParts(CallKind kind) {
  return kind == CallKind::kReduceScatter || kind == CallKind::kAllGather ||
         kind == CallKind::kGather || kind == CallKind::kScatter;
}

int64_t SumOf(const std::vector<int64_t>& counts, size_t begin, size_t end, size_t stride) {
  int64_t sum = 0;
  for (size_t i = begin; i < end; i += stride) {
    sum += counts[i];
  }
  return sum;
}

Status CheckCounts(const Call& call, int members) {
  const std::vector<int64_t>& counts = call.spec.counts;
  const bool all_to_all = call.kind == CallKind::kAllToAll;
  if (counts.empty()) {
    if (all_to_all && call.spec.shape.num_elements() % members != 0) {
      return InvalidArgument(fmt::format("{} elements cannot be dealt out evenly to {} members",
                                         call.spec.shape.num_elements(), members));
    }
    return OkStatus();
  }
  if (!all_to_all && !HasParts(call.kind)) {
    return InvalidArgument("this kind of call has no counts");
  }
  const auto expected = static_cast<size_t>(all_to_all ? members * members : members);
  if (counts.size() != expected) {
    return InvalidArgument(
        fmt::format("{} counts: {} are needed for {} members", counts.size(), expected, members));
  }
  int64_t sum = 0;
  for (const int64_t count : counts) {
    if (count < 0 || __builtin_add_overflow(sum, count, &sum)) {
      return InvalidArgument(fmt::format("a count of {} elements", count));
    }
  }
  if (!all_to_all && sum != call.spec.shape.num_elements()) {
    return InvalidArgument(fmt::format("counts of {} elements for a shape {} with {}", sum,
                                       call.spec.shape.ToString(), call.spec.shape.num_elements()));
  }
  return OkStatus();
}

// Elements that this member must have a buffer for.
int64_t InputElements(const Call& call, int members, int self) {
  const auto m = static_cast<size_t>(members);
  const auto me = static_cast<size_t>(self);
  switch (call.kind) {
    case CallKind::kAllReduce:
    case CallKind::kReduce:
    case CallKind::kReduceScatter:
      return call.spec.shape.num_elements();
    case CallKind::kAllGather:
    case CallKind::kGather:
      return PartOf(call, members, self).count;
    case CallKind::kScatter:
      return self == call.spec.root ? call.spec.shape.num_elements() : 0;
    case CallKind::kAllToAll:
      return call.spec.counts.empty() ? call.spec.shape.num_elements()
                                      : SumOf(call.spec.counts, me * m, (me + 1) * m, 1);
    case CallKind::kBroadcast:
    case CallKind::kBarrier:
      return 0;
  }
  return 0;
}

int64_t OutputElements(const Call& call, int members, int self) {
  const auto m = static_cast<size_t>(members);
  switch (call.kind) {
    case CallKind::kAllReduce:
    case CallKind::kAllGather:
    case CallKind::kBroadcast:
      return call.spec.shape.num_elements();
    case CallKind::kReduce:
    case CallKind::kGather:
      return self == call.spec.root ? call.spec.shape.num_elements() : 0;
    case CallKind::kReduceScatter:
    case CallKind::kScatter:
      return PartOf(call, members, self).count;
    case CallKind::kAllToAll:
      return call.spec.counts.empty()
                 ? call.spec.shape.num_elements()
                 : SumOf(call.spec.counts, static_cast<size_t>(self), m * m, m);
    case CallKind::kBarrier:
      return 0;
  }
  return 0;
}

}  // namespace

std::string_view CallKindName(CallKind kind) {
  switch (kind) {
    case CallKind::kAllReduce:
      return "all_reduce";
    case CallKind::kReduce:
      return "reduce";
    case CallKind::kReduceScatter:
      return "reduce_scatter";
    case CallKind::kAllGather:
      return "all_gather";
    case CallKind::kBroadcast:
      return "broadcast";
    case CallKind::kGather:
      return "gather";
    case CallKind::kScatter:
      return "scatter";
    case CallKind::kAllToAll:
      return "all_to_all";
    case CallKind::kBarrier:
      return "barrier";
  }
  return "unknown";
}

Call AllReduceCall(CallSpec spec, std::vector<const void*> nodes, void* output) {
  return MakeCall(CallKind::kAllReduce, std::move(spec), std::move(nodes), output);
}

Call ReduceCall(CallSpec spec, std::vector<const void*> nodes, void* output) {
  return MakeCall(CallKind::kReduce, std::move(spec), std::move(nodes), output);
}

Call ReduceScatterCall(CallSpec spec, std::vector<const void*> nodes, void* output) {
  return MakeCall(CallKind::kReduceScatter, std::move(spec), std::move(nodes), output);
}

Call AllGatherCall(CallSpec spec, const void* input, void* output) {
  return MakeCall(CallKind::kAllGather, std::move(spec), {input}, output);
}

Call BroadcastCall(CallSpec spec, void* buffer) {
  return MakeCall(CallKind::kBroadcast, std::move(spec), {}, buffer);
}

Call GatherCall(CallSpec spec, const void* input, void* output) {
  return MakeCall(CallKind::kGather, std::move(spec), {input}, output);
}

Call ScatterCall(CallSpec spec, const void* input, void* output) {
  return MakeCall(CallKind::kScatter, std::move(spec), {input}, output);
}

Call AllToAllCall(CallSpec spec, const void* input, void* output) {
  return MakeCall(CallKind::kAllToAll, std::move(spec), {input}, output);
}

Call BarrierCall(std::string name) {
  CallSpec spec;
  spec.name = std::move(name);
  return MakeCall(CallKind::kBarrier, std::move(spec), {}, nullptr);
}

std::string Describe(const Call& call) {
  std::string text = fmt::format("{} '{}'", CallKindName(call.kind), call.spec.name);
  if (call.kind == CallKind::kBarrier) {
    return text;
  }
  if (call.reduces()) {
    text += fmt::format(" {}", ReduceOpName(call.spec.op));
  }
  text += fmt::format(" {} {}", DTypeName(call.spec.dtype), call.spec.shape.ToString());
  if (HasRoot(call.kind)) {
    text += fmt::format(" root {}", call.spec.root);
  }
  if (!call.spec.counts.empty()) {
    text += fmt::format(" counts {}", fmt::join(call.spec.counts, ","));
  }
  if (call.spec.codec != Codec::kNone) {
    text += fmt::format(" codec {}", CodecName(call.spec.codec));
  }
  if (call.spec.algorithm != Algorithm::kAuto) {
    text += fmt::format(" by {}", AlgorithmName(call.spec.algorithm));
  }
  return text;
}

Part EvenPart(int64_t n, int parts, int index) {
  // As index * n / parts, without the overflow.
  const auto bound = [n, parts](int64_t i) { return n / parts * i + n % parts * i / parts; };
  return {bound(index), bound(index + 1) - bound(index)};
}

Part PartOf(const Call& call, int members, int member) {
  const std::vector<int64_t>& counts = call.spec.counts;
  if (counts.empty()) {
    return EvenPart(call.spec.shape.num_elements(), members, member);
  }
  const auto at = static_cast<size_t>(member);
  return {SumOf(counts, 0, at, 1), counts[at]};
}

Exchanged ExchangedBy(const Call& call, int members, int from, int to) {
  const std::vector<int64_t>& counts = call.spec.counts;
  if (counts.empty()) {
    const int64_t each = call.spec.shape.num_elements() / members;
    return {{to * each, each}, {from * each, each}};
  }
  const auto m = static_cast<size_t>(members);
  const auto i = static_cast<size_t>(from);
  const auto j = static_cast<size_t>(to);
  const int64_t count = counts[i * m + j];
  return {{SumOf(counts, i * m, i * m + j, 1), count}, {SumOf(counts, j, i * m + j, m), count}};
}

Status CheckCall(const Call& call, const ReplicaMap& map, int self) {
  if (!call.spec.shape.fully_known()) {
    return InvalidArgument(fmt::format("the open shape {}", call.spec.shape.ToString()));
  }
  if (call.reduces()) {
    LS_TRY(CheckReducible(call.spec.dtype));
    const size_t nodes = map.nodes(self).size();
    if (call.inputs.size() != nodes) {
      return InvalidArgument(fmt::format("{} inputs: this member holds {} nodes of the tree",
                                         call.inputs.size(), nodes));
    }
  }
  const bool sums = call.spec.op == ReduceOp::kSum || call.spec.op == ReduceOp::kMean;
  if (call.spec.codec != Codec::kNone &&
      (!call.reduces() || !sums || call.spec.dtype != DType::kFloat32)) {
    return InvalidArgument(fmt::format("codec {}: only sums and means of float32 have one",
                                       CodecName(call.spec.codec)));
  }
  if (HasRoot(call.kind) && (call.spec.root < 0 || call.spec.root >= map.members())) {
    return InvalidArgument(fmt::format("there is no member {}: members are 0 to {}", call.spec.root,
                                       map.members() - 1));
  }
  LS_TRY(CheckCounts(call, map.members()));
  for (const void* input : call.inputs) {
    if (input == nullptr && InputElements(call, map.members(), self) > 0) {
      return InvalidArgument("an input without a buffer");
    }
  }
  if (call.output == nullptr && OutputElements(call, map.members(), self) > 0) {
    return InvalidArgument("no buffer for the output");
  }
  return OkStatus();
}

}  // namespace lockstep::collective
