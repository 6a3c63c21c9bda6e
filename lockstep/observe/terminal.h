// The terminal behind a file descriptor.
#pragma once

#include <optional>

namespace lockstep::observe {

// Its width in columns (80 if it does not say), or nothing if `fd` is no terminal.
std::optional<int> TerminalWidth(int fd);

}  // namespace lockstep::observe
