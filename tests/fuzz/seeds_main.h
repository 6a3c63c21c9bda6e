// main() of the programs that write the first inputs of a fuzz target.
#pragma once

#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>
#include <system_error>

#include "lockstep/base/status.h"

namespace lockstep {

// Empties the folder that is the only argument, or makes it, and has `write` fill it.
inline int SeedsMain(int argc, char** argv,
                     const std::function<Status(const std::string& folder)>& write) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  std::error_code error;
  std::filesystem::remove_all(argv[1], error);
  std::filesystem::create_directories(argv[1], error);
  if (error) {
    std::fprintf(stderr, "%s: %s\n", argv[1], error.message().c_str());
    return 1;
  }
  const Status status = write(argv[1]);
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
  }
  return status.ok() ? 0 : 1;
}

}  // namespace lockstep
