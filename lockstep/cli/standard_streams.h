// Standard input, output and error that were closed by whoever started the program.
#pragma once

#include "lockstep/base/status.h"

namespace lockstep::cli {

// Takes the numbers 0 to 2 where they are free, so that no file, pipe or link gets one of them and
// is then taken for the terminal. Using such a stream still fails, as it does when it is closed.
Status HoldStandardStreams();

}  // namespace lockstep::cli
