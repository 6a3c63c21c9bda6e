// Whether the disk has room for a file, before the work that the file is to hold.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/base/status.h"

namespace lockstep::train::internal {

// RESOURCE_EXHAUSTED if the disk of `folder` has no room for so many bytes of `what` ("a
// checkpoint"). Quotas are not known before they are met.
Status CheckDiskSpace(const std::string& folder, std::string_view what, uint64_t bytes);

}  // namespace lockstep::train::internal
