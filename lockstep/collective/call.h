// Call: one collective call as a member makes it: what is done, which all members must agree on,
// and this member's buffers.
//
//   group->Run(AllReduceCall({.name = "gradients/0", .dtype = DType::kFloat32, .shape = shape},
//                            {gradients}, gradients), deadline);
//
// Buffers hold row-major elements and belong to the call until it has ended. An output may be an
// input of all_reduce and reduce, and what a member keeps for itself may stay where it is in the
// whole of reduce_scatter, all_gather, gather and scatter; buffers overlap in no other way.
// Elements below are those of `dtype`, n is the number of elements of `shape`, M of members, c[i]
// the counts:
//
//   kind            inputs of member i            output of member i
//   all_reduce      n of each of its nodes        n
//   reduce          n of each of its nodes        n at the root
//   reduce_scatter  n of each of its nodes        c[i]: part i of the result
//   all_gather      c[i]                          n, all parts in order
//   broadcast       -                             n; the root's is read, the others' are written
//   gather          c[i]                          n at the root
//   scatter         n at the root                 c[i]
//   all_to_all      sum over j of c[i * M + j]    sum over j of c[j * M + i], in order of j
//   barrier         -                             -
//
// Counts may be left empty: parts are then [i * n / M, (i + 1) * n / M). An all_to_all's n is that
// of one member, and without counts must be divisible by M; with counts its shape is not used.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/collective/algorithm.h"
#include "lockstep/collective/codec.h"
#include "lockstep/collective/reduce_op.h"
#include "lockstep/collective/replica_map.h"
#include "lockstep/tensor/dtype.h"
#include "lockstep/tensor/shape.h"

namespace lockstep::collective {

enum class CallKind {
  kAllReduce,
  kReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kGather,
  kScatter,
  kAllToAll,
  kBarrier,
};

// "all_reduce" and so on.
std::string_view CallKindName(CallKind kind);

// What all members must agree on besides the kind.
struct CallSpec {
  std::string name = {};
  ReduceOp op = ReduceOp::kSum;
  DType dtype = DType::kFloat32;
  Shape shape = {};
  std::vector<int64_t> counts = {};
  int root = 0;  // a member of the group
  Algorithm algorithm = Algorithm::kAuto;
  // Of the nodes of a reduction, whose leaves have gone through it: sums and means of float32.
  Codec codec = Codec::kNone;
};

struct Call {
  CallKind kind = CallKind::kBarrier;
  CallSpec spec = {};
  std::vector<const void*> inputs = {};
  void* output = nullptr;

  bool reduces() const {
    return kind == CallKind::kAllReduce || kind == CallKind::kReduce ||
           kind == CallKind::kReduceScatter;
  }
};

// `nodes`: one buffer for each node that this member holds (ReplicaMap), in order.
Call AllReduceCall(CallSpec spec, std::vector<const void*> nodes, void* output);
Call ReduceCall(CallSpec spec, std::vector<const void*> nodes, void* output);
Call ReduceScatterCall(CallSpec spec, std::vector<const void*> nodes, void* output);
Call AllGatherCall(CallSpec spec, const void* input, void* output);
Call BroadcastCall(CallSpec spec, void* buffer);
Call GatherCall(CallSpec spec, const void* input, void* output);
Call ScatterCall(CallSpec spec, const void* input, void* output);
Call AllToAllCall(CallSpec spec, const void* input, void* output);
Call BarrierCall(std::string name);

// "all_reduce 'gradients/0' sum float32 [1000]": everything that members must agree on.
std::string Describe(const Call& call);

// Elements [begin, begin + count) of a whole.
struct Part {
  int64_t begin = 0;
  int64_t count = 0;
};

// Part `index` of n elements in `parts` almost equal ones.
Part EvenPart(int64_t n, int parts, int index);

// Part `member` of what a call of these kinds deals out or collects: reduce_scatter, all_gather,
// gather, scatter.
Part PartOf(const Call& call, int members, int member);

// What `from` sends to `to` in an all_to_all: `sent` within the input of `from`, `received` within
// the output of `to`.
struct Exchanged {
  Part sent;
  Part received;
};

Exchanged ExchangedBy(const Call& call, int members, int from, int to);

// Errors: InvalidArgument that says what does not fit: types that cannot be reduced, a root or
// counts that the group does not have, missing buffers, the wrong number of nodes.
Status CheckCall(const Call& call, const ReplicaMap& map, int self);

}  // namespace lockstep::collective
