// How long this process has lived.
#pragma once

namespace lockstep::cli {

// Seconds since the process was started, in the kernel's ticks (usually 10 ms); NaN where the
// system does not say.
double ProcessAge();

}  // namespace lockstep::cli
