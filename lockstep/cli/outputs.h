// Whether what a run will write at its end can be written. Nothing is made or changed; what happens
// to the disk in between is seen when it is written.
#pragma once

#include <string>

#include "lockstep/base/status.h"

namespace lockstep::cli {

// The folder of the file must exist and be writable; the file itself may exist, but not be a
// folder.
Status CheckOutputFile(const std::string& path);

// The folder may exist; whatever of the path exists must be folders, the last of them writable.
Status CheckOutputFolder(const std::string& path);

}  // namespace lockstep::cli
