// Paths: what one leads to, without opening it. Errors as in file.h; those about a link name its
// target. Thread-safe.
#pragma once

#include <string>

#include "lockstep/base/result.h"

namespace lockstep {

// The folder that holds `path`, by its text alone: "." for a name, "/" at the top.
std::string FolderOf(const std::string& path);

// Whether both are the same file or folder, or would be if it was made: by another name, through a
// link, or with a folder in between that is given in another way.
bool SameFile(const std::string& a, const std::string& b);

// The file that `path` stands for when it is written: the target of a symbolic link, otherwise
// `path`. What is there and is not a regular file is refused, because a rename would replace it.
Result<std::string> ResolveTarget(const std::string& path);

// That `path` is a folder, itself or through a link. NOT_FOUND where nothing is there, and for a
// link that leads nowhere; INVALID_ARGUMENT for anything that is no folder.
Status CheckFolder(const std::string& path);

}  // namespace lockstep
