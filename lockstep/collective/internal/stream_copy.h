// A copy for another core to read: past this core's caches, because it costs more to take a line
// that two cores share back and forth than to go through memory. Pays from some tens of kilobytes
// on.
#pragma once

#include <cstddef>

namespace lockstep::collective::internal {

// `to` is aligned to 16 bytes.
void StreamCopy(std::byte* to, const std::byte* from, size_t bytes);

}  // namespace lockstep::collective::internal
