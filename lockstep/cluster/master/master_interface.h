// MasterInterface: what a client asks of a master, in process or by RPC. Sessions are known by
// random numbers; the variables that their graphs make live in the workers and outlive them.
// Thread-safe.
//
// Errors: ABORTED for an unknown session or callable (it was closed, or the master has restarted),
// UNAVAILABLE for a task that is lost, DEADLINE_EXCEEDED that names who is missing, and what the
// steps' ops say, with the task in the context.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/base/result.h"
#include "lockstep/pass/device_set.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::cluster {

struct SessionConfig {
  // Partial device names: only tasks with a device that matches one are used and waited for, and
  // the master's own task.
  std::vector<std::string> device_filters = {};
  // Where its variables live.
  std::string container = {};
  // Variables of its own instead, which end with the session.
  bool isolate = false;
  // A device that is not there, or has no kernel, is replaced by another one of its task.
  bool soft_placement = false;
  // The master's log says where every node of the graph runs.
  bool log_placement = false;
  // Isolation, placement and its log as the server's definition says, in place of the fields above.
  bool server_defaults = true;
  // The session ends when nothing was heard of its client for so long (KeepSession); 0: never.
  std::chrono::milliseconds lease{0};
  // Root of all randomness.
  uint64_t seed = 0;
};

struct SessionHandle {
  uint64_t session = 0;
  // Counts the extensions of the graph.
  uint64_t graph_version = 0;
};

// "name" and "name:1" for values, "name" for targets.
struct SignatureNames {
  std::vector<std::string> feeds;
  std::vector<std::string> fetches;
  std::vector<std::string> targets;

  friend bool operator==(const SignatureNames&, const SignatureNames&) = default;
};

struct StepRequest {
  uint64_t session = 0;
  // Of MakeCallable, or 0: then the signature counts.
  uint64_t callable = 0;
  // Of PartialRunSetup, or 0. Then the signature is what is given and asked for now.
  uint64_t partial_run = 0;
  SignatureNames signature;
  std::vector<Tensor> feeds;
  // Random; a request that comes twice is run once. 0: not checked.
  uint64_t request_id = 0;
  Deadline deadline = Deadline::Infinite();
  // Tell where every node was placed.
  bool trace_placement = false;
};

struct StepReply {
  std::vector<Tensor> fetches;
  std::string placement;
};

class MasterInterface {
 public:
  virtual ~MasterInterface() = default;

  // `graph` as SerializeGraph writes it. Waits until every task that the session uses answers.
  virtual Result<SessionHandle> CreateSession(const std::string& graph, const SessionConfig& config,
                                              const Deadline& deadline) = 0;
  // The whole graph as it is now, which has grown since `handle.graph_version`.
  virtual Result<SessionHandle> ExtendSession(const SessionHandle& handle, const std::string& graph,
                                              const Deadline& deadline) = 0;
  virtual Result<StepReply> RunStep(const StepRequest& request) = 0;
  // A step whose feeds and fetches come in several calls of RunStep, within `deadline`. `whole` is
  // all that will be given and asked for: pass::PartialStep.
  virtual Result<uint64_t> PartialRunSetup(uint64_t session, const SignatureNames& whole,
                                           const Deadline& deadline) = 0;
  virtual Result<uint64_t> MakeCallable(uint64_t session, const SignatureNames& signature,
                                        const Deadline& deadline) = 0;
  virtual Status ReleaseCallable(uint64_t session, uint64_t callable, const Deadline& deadline) = 0;
  virtual Status CloseSession(uint64_t session, const Deadline& deadline) = 0;
  // The client is still there.
  virtual Status KeepSession(uint64_t session, const Deadline& deadline) = 0;
  virtual Result<std::vector<pass::DeviceAttributes>> ListDevices(uint64_t session,
                                                                  const Deadline& deadline) = 0;
  // Forgets the variables of containers ("" is the default one) in every task, and closes every
  // session of this master; none named: all containers.
  virtual Status Reset(const std::vector<std::string>& containers, const Deadline& deadline) = 0;
};

}  // namespace lockstep::cluster
