// SharedRegions: the memory that this task has allocated for a group and that its peers can map.
// Thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "lockstep/base/mutex.h"
#include "lockstep/collective/internal/shared_memory.h"
#include "lockstep/net/transport.h"

namespace lockstep::collective::internal {

class SharedRegions {
 public:
  // At least `bytes`, zeros.
  Result<std::shared_ptr<net::Region>> Allocate(net::Transport& transport, size_t bytes)
      LS_EXCLUDES(mu_);

  // The region that [data, data + bytes) lies in, if there is one.
  std::optional<SharedPlace> Find(const void* data, size_t bytes) LS_EXCLUDES(mu_);

 private:
  Mutex mu_;
  std::map<const std::byte*, std::weak_ptr<net::Region>> regions_ LS_GUARDED_BY(mu_);
};

// Writes where the buffers of this member lie: region 0 where peers cannot reach them. Each input
// has `input_bytes`.
void AnnounceBuffers(Announcement& mine, SharedRegions& regions,
                     std::span<const void* const> inputs, size_t input_bytes, const void* output,
                     size_t output_bytes);

// Whether peers can reach all nodes of a member that has so many.
bool NodesAnnounced(const Announcement& theirs, size_t nodes);

}  // namespace lockstep::collective::internal
