// Names of the coordinator's calls on the wire.
#pragma once

#include <string_view>

namespace lockstep::cluster::internal::coordinator_method {

inline constexpr std::string_view kRegister = "/lockstep.cluster.Coordinator/RegisterTask";
inline constexpr std::string_view kHeartbeat = "/lockstep.cluster.Coordinator/Heartbeat";
inline constexpr std::string_view kWatch = "/lockstep.cluster.Coordinator/Watch";
inline constexpr std::string_view kWaitForTasks = "/lockstep.cluster.Coordinator/WaitForTasks";
inline constexpr std::string_view kSetActivity = "/lockstep.cluster.Coordinator/SetActivity";
inline constexpr std::string_view kBarrier = "/lockstep.cluster.Coordinator/Barrier";
inline constexpr std::string_view kInsert = "/lockstep.cluster.Coordinator/InsertKeyValue";
inline constexpr std::string_view kGet = "/lockstep.cluster.Coordinator/GetKeyValue";
inline constexpr std::string_view kList = "/lockstep.cluster.Coordinator/ListKeyValues";
inline constexpr std::string_view kDelete = "/lockstep.cluster.Coordinator/DeleteKeyValue";

}  // namespace lockstep::cluster::internal::coordinator_method
