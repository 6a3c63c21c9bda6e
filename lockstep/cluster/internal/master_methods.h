// Names of the calls of masters on the wire.
#pragma once

#include <string_view>

namespace lockstep::cluster::internal::master_method {

inline constexpr std::string_view kCreateSession = "/lockstep.cluster.Master/CreateSession";
inline constexpr std::string_view kExtendSession = "/lockstep.cluster.Master/ExtendSession";
inline constexpr std::string_view kRunStep = "/lockstep.cluster.Master/RunStep";
inline constexpr std::string_view kPartialRunSetup = "/lockstep.cluster.Master/PartialRunSetup";
inline constexpr std::string_view kMakeCallable = "/lockstep.cluster.Master/MakeCallable";
inline constexpr std::string_view kReleaseCallable = "/lockstep.cluster.Master/ReleaseCallable";
inline constexpr std::string_view kCloseSession = "/lockstep.cluster.Master/CloseSession";
inline constexpr std::string_view kKeepSession = "/lockstep.cluster.Master/KeepSession";
inline constexpr std::string_view kListDevices = "/lockstep.cluster.Master/ListDevices";
inline constexpr std::string_view kReset = "/lockstep.cluster.Master/Reset";

}  // namespace lockstep::cluster::internal::master_method
