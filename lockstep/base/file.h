// Whole files: bounded reading and atomic, durable writing. Errors name the path and the system's
// reason; the code follows errno (NOT_FOUND, PERMISSION_DENIED, RESOURCE_EXHAUSTED, ...). Only
// regular files: a directory, a pipe or a device is refused, so that no call waits for a peer.
// Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/base/result.h"

namespace lockstep {

// The content of `path`. A file of more than `max_bytes` is OUT_OF_RANGE before anything of
// it is kept.
Result<std::string> ReadFile(const std::string& path, uint64_t max_bytes);

// Replaces `path` by a file with this content: a temporary file in the same folder is written and
// synchronised, renamed over `path`, and the folder is synchronised. After a crash at any moment
// `path` holds either the old or the new content, whole. A symbolic link is followed.
Status WriteFileAtomic(const std::string& path, std::string_view content);

// Makes what was created, renamed or removed in `folder` durable.
Status SyncFolder(const std::string& folder);

// The Status for a failed system call: "PATH: cannot ACTION: No such file or directory".
Status ErrnoStatus(int error, std::string_view path, std::string_view action);

}  // namespace lockstep
