#include "lockstep/collective/internal/shared_regions.h"

#include <algorithm>
#include <iterator>

namespace lockstep::collective::internal {

Result<std::shared_ptr<net::Region>> SharedRegions::Allocate(net::Transport& transport,
                                                             size_t bytes) {
  LS_ASSIGN_OR_RETURN(std::shared_ptr<net::Region> region,
                      transport.CreateRegion(std::max<size_t>(bytes, 1)));
  MutexLock lock(mu_);
  std::erase_if(regions_, [](const auto& entry) { return entry.second.expired(); });
  regions_[static_cast<const std::byte*>(region->data())] = region;
  return region;
}

std::optional<SharedPlace> SharedRegions::Find(const void* data, size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(data);
  MutexLock lock(mu_);
  const auto after = regions_.upper_bound(begin);
  if (after == regions_.begin()) {
    return std::nullopt;
  }
  const auto& [start, weak] = *std::prev(after);
  const std::shared_ptr<net::Region> region = weak.lock();
  const auto offset = static_cast<size_t>(begin - start);
  if (region == nullptr || offset > region->bytes() || bytes > region->bytes() - offset) {
    return std::nullopt;
  }
  return SharedPlace{region->number(), offset};
}

void AnnounceBuffers(Announcement& mine, SharedRegions& regions,
                     std::span<const void* const> inputs, size_t input_bytes, const void* output,
                     size_t output_bytes) {
  mine.nodes[0] = {};
  mine.output = {};
  if (inputs.size() > kMaxSharedNodes) {
    return;
  }
  for (size_t node = 0; node < inputs.size(); ++node) {
    mine.nodes[node] = regions.Find(inputs[node], input_bytes).value_or(SharedPlace());
  }
  if (output_bytes > 0) {
    mine.output = regions.Find(output, output_bytes).value_or(SharedPlace());
  }
}

bool NodesAnnounced(const Announcement& theirs, size_t nodes) {
  return nodes <= kMaxSharedNodes &&
         std::all_of(theirs.nodes, theirs.nodes + nodes,
                     [](const SharedPlace& place) { return place.region != 0; });
}

}  // namespace lockstep::collective::internal
