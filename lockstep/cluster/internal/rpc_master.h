// RpcMaster: the master of a server somewhere else.
#pragma once

#include <memory>

#include "lockstep/cluster/internal/rpc_channel.h"
#include "lockstep/cluster/master/master_interface.h"

namespace lockstep::cluster::internal {

class RpcMaster : public MasterInterface {
 public:
  explicit RpcMaster(std::shared_ptr<RpcChannel> channel) : channel_(std::move(channel)) {}

  Result<SessionHandle> CreateSession(const std::string& graph, const SessionConfig& config,
                                      const Deadline& deadline) override;
  Result<SessionHandle> ExtendSession(const SessionHandle& handle, const std::string& graph,
                                      const Deadline& deadline) override;
  Result<StepReply> RunStep(const StepRequest& request) override;
  Result<uint64_t> PartialRunSetup(uint64_t session, const SignatureNames& whole,
                                   const Deadline& deadline) override;
  Result<uint64_t> MakeCallable(uint64_t session, const SignatureNames& signature,
                                const Deadline& deadline) override;
  Status ReleaseCallable(uint64_t session, uint64_t callable, const Deadline& deadline) override;
  Status CloseSession(uint64_t session, const Deadline& deadline) override;
  Status KeepSession(uint64_t session, const Deadline& deadline) override;
  Result<std::vector<pass::DeviceAttributes>> ListDevices(uint64_t session,
                                                          const Deadline& deadline) override;
  Status Reset(const std::vector<std::string>& containers, const Deadline& deadline) override;

 private:
  const std::shared_ptr<RpcChannel> channel_;
};

}  // namespace lockstep::cluster::internal
