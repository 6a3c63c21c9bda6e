// TOML as the same tree that JSON becomes.
#pragma once

#include <string_view>

#include "lockstep/cluster/internal/document.h"

namespace lockstep::cluster::internal {

// TOML 1.0. Its dates and times have no place in a cluster and are refused; keys come sorted.
Result<Node> ParseToml(std::string_view text, const Document& document);

}  // namespace lockstep::cluster::internal
