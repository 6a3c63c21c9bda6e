// What is wrong with a command line, in words that help.
#pragma once

#include <CLI/CLI.hpp>
#include <span>

#include "lockstep/base/status.h"

namespace lockstep::cli {

// That there is a command, and that it exists: CLI11 calls a misspelt one missing. `arguments`:
// without the program's name.
Status CheckCommand(const CLI::App& app, std::span<char* const> arguments);

// The error of CLI11 in our words where it has no good ones.
Status UsageError(const CLI::App& app, const CLI::ParseError& error);

}  // namespace lockstep::cli
