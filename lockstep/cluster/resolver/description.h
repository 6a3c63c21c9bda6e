// A cluster that somebody wrote down: in a file, or in one argument of a command line.
#pragma once

#include <string>
#include <string_view>

#include "lockstep/base/result.h"
#include "lockstep/cluster/resolver/resolution.h"

namespace lockstep::cluster {

// A file's content, TOML if the path ends in ".toml", JSON otherwise. Either the jobs themselves,
// or the jobs under `cluster`, then with or without a `task`:
//
//   [cluster]                                  {"cluster": {"ps": ["a:2222"],
//   ps = ["a:2222"]                                         "worker": {"0": "b:1", "7": "c:1"}},
//   worker = {0 = "b:1", 7 = "c:1"}             "task": {"type": "worker", "index": 7}}
//   [task]
//   type = "worker"
//   index = 7
//
// Any job names; an `evaluator` is no member of training. Faults name the path, line and column.
Result<Resolution> ResolveFile(std::string_view text, const std::string& path);

// The form of one argument: "ps|a:2222,worker|b:2222;c:2222".
Result<Resolution> ResolveSpecText(std::string_view text);

}  // namespace lockstep::cluster
