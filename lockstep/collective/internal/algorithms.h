// What carries out calls. Each function returns when this member's part of the call is done: its
// outputs are there, and nobody reads its inputs any more.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "lockstep/collective/call.h"
#include "lockstep/collective/internal/call_io.h"
#include "lockstep/collective/internal/group_info.h"
#include "lockstep/collective/internal/shared_regions.h"
#include "lockstep/tensor/buffer.h"

namespace lockstep::collective::internal {

// Memory that is kept between calls.
class Scratch {
 public:
  // `count` pieces of `bytes` each, aligned; valid until the next call.
  Result<std::vector<void*>> Take(size_t count, size_t bytes);

 private:
  std::shared_ptr<Buffer> buffer_;
};

class HostLevel;

struct CallRun {
  const Call& call;
  const GroupInfo& group;
  CallIo& io;
  Scratch& scratch;
  SharedRegions& regions;
  HostLevel* hosts = nullptr;  // where two levels are of use

  size_t element_bytes() const { return DTypeSize(call.spec.dtype); }

  NodeArithmetic arithmetic() const {
    return {.op = call.spec.op, .dtype = call.spec.dtype, .codec = call.spec.codec};
  }

  size_t bytes() const {
    return static_cast<size_t>(call.spec.shape.num_elements()) * element_bytes();
  }
};

// Every kind of call (Algorithm::kGather).
Status RunGather(CallRun& run);

// all_reduce and reduce (Algorithm::kPairwise).
Status RunPairwise(CallRun& run);

// all_reduce and reduce, where group.balanced (Algorithm::kHalvingDoubling).
Status RunHalvingDoubling(CallRun& run);

// Reductions, where io.shared_memory() is there (Algorithm::kShared).
Status RunShared(CallRun& run);

// all_reduce and reduce, where `hosts` is there (Algorithm::kTwoLevel).
Status RunTwoLevel(CallRun& run);

// Which algorithm a call takes: the one that it asks for where that can carry it out.
Algorithm ChooseAlgorithm(const CallRun& run);

}  // namespace lockstep::collective::internal
