// Slurm's compressed lists: hosts ("n[1-3,7,009-011]-ib,gpu1") and counts per node ("2(x3),1").
//
// Hosts: names separated by commas; a bracket holds numbers and ranges, which keep their leading
// zeros ("n[009-011]" is n009, n010, n011); a name may have several brackets, of which the last
// runs fastest. White space around commas is skipped. Counts: a number, or a number with a
// repetition. Both are sized before anything is expanded: a hostile "n[1-999999999]" is refused.
// Errors: INVALID_ARGUMENT with the text, the byte and what is expected there.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/result.h"

namespace lockstep::cluster {

// At most kMaxTasks hosts, in order; a host that is listed twice comes twice.
Result<std::vector<std::string>> ExpandHostList(std::string_view text);

// One number for each node, at most kMaxTasks of them, each from 0 to kMaxTasks.
Result<std::vector<int>> ExpandCounts(std::string_view text);

}  // namespace lockstep::cluster
