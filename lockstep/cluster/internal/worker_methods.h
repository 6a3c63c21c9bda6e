// Names of the calls of workers on the wire.
#pragma once

#include <string_view>

namespace lockstep::cluster::internal::worker_method {

inline constexpr std::string_view kGetStatus = "/lockstep.cluster.Worker/GetStatus";
inline constexpr std::string_view kCreateSession = "/lockstep.cluster.Worker/CreateWorkerSession";
inline constexpr std::string_view kDeleteSession = "/lockstep.cluster.Worker/DeleteWorkerSession";
inline constexpr std::string_view kRegisterGraph = "/lockstep.cluster.Worker/RegisterGraph";
inline constexpr std::string_view kDeregisterGraph = "/lockstep.cluster.Worker/DeregisterGraph";
inline constexpr std::string_view kConnectTasks = "/lockstep.cluster.Worker/ConnectTasks";
inline constexpr std::string_view kCleanupGraph = "/lockstep.cluster.Worker/CleanupGraph";
inline constexpr std::string_view kCleanupAll = "/lockstep.cluster.Worker/CleanupAll";

}  // namespace lockstep::cluster::internal::worker_method
