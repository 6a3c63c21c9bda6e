// The device that fuzzed parts are for.
#pragma once

namespace lockstep::testing {

inline constexpr char kPartDevice[] = "/job:worker/replica:0/task:0/device:CPU:0";
inline constexpr char kOtherPartDevice[] = "/job:worker/replica:0/task:1/device:CPU:0";

}  // namespace lockstep::testing
