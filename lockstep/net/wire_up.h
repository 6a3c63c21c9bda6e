// Wire-up: connects a task with all others, each pair over the best link that both have: shm
// between processes of one host, else ucx, else grpc. Where TLS is required ucx cannot be had.
//
//   WireUpOptions options{.self = 0, .tasks = names, .job_secret = secret};
//   options.links = {{LinkKind::kShm, ShmFactory({})}, {LinkKind::kGrpc, GrpcFactory(...)}};
//   LS_ASSIGN_OR_RETURN(auto transport, WireUp(options, exchange, deadline));
//   log.Info(DescribeLinks(*transport));
//
// Errors: DeadlineExceeded and Unavailable that name who is missing, FailedPrecondition when two
// tasks have no kind of link in common, Unauthenticated.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/net/internal/link_provider.h"
#include "lockstep/net/internal/reactor.h"
#include "lockstep/net/shm/shm_provider.h"
#include "lockstep/net/transport.h"

namespace lockstep::net {

// How tasks learn each other's addresses, over connections that are trusted already.
class BlobExchange {
 public:
  virtual ~BlobExchange() = default;
  virtual Status Put(std::string blob, const Deadline& deadline) = 0;
  // What `task` put.
  virtual Result<std::string> Get(PeerId task, const Deadline& deadline) = 0;
};

using LinkFactory = std::function<Result<std::unique_ptr<internal::LinkProvider>>(
    const internal::TaskIdentity&, internal::Reactor&)>;

LinkFactory ShmFactory(ShmOptions options);

struct LinkChoice {
  LinkKind kind;
  LinkFactory make;
  // Where this kind cannot be had (no such interface, no encryption) the task does without it.
  bool optional = false;
};

struct WireUpOptions {
  PeerId self = 0;
  std::vector<std::string> tasks;  // names, in the order of PeerId
  uint64_t incarnation = 0;        // random if 0
  std::string job_secret;
  std::vector<LinkChoice> links;
  internal::ReactorOptions reactor;
  // A peer with whom something is pending, and who is silent, is lost within one and a half times
  // this; 0: only when its connection ends, or by Transport::FailPeer.
  std::chrono::milliseconds heartbeat{5000};
};

Result<std::unique_ptr<Transport>> WireUp(const WireUpOptions& options, BlobExchange& exchange,
                                          const Deadline& deadline);

// "/job:worker/task:0: links shm to /job:worker/task:1, grpc to ...".
std::string DescribeLinks(const Transport& transport);

// What a task puts into the exchange.
struct TaskAddresses {
  struct Link {
    LinkKind kind;
    std::string address;
  };

  uint64_t incarnation = 0;
  std::string host;  // tasks with the same one share memory
  std::vector<Link> links;
};

std::string EncodeTaskAddresses(const TaskAddresses& addresses);
// Of a peer: hostile. Errors: InvalidArgument.
Result<TaskAddresses> ParseTaskAddresses(std::string_view blob);

}  // namespace lockstep::net
