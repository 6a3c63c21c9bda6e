#include "lockstep/cluster/server/data_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "lockstep/net/grpc/grpc_provider.h"
#include "lockstep/net/ucx/ucx_provider.h"

namespace lockstep::cluster {
namespace {

using std::chrono::milliseconds;

// Who is asked to connect is there, or will not come.
constexpr milliseconds kConnectTimeout{60'000};
// A wait for an address looks this often whether the server stops.
constexpr milliseconds kLook{1000};

std::string KeyOf(int number, uint64_t incarnation, const std::string& topic) {
  return fmt::format("links/{}/{:x}/{}", number, incarnation, topic);
}

Result<std::vector<net::LinkChoice>> ChoicesOf(const DataLinks::Options& options) {
  const ServerDef& def = options.def;
  const SecurityOptions& security = options.security;
  const std::string& name = def.transport();
  std::vector<net::LinkChoice> choices;
  if (name == "auto" || name == "shm") {
    choices.push_back({net::LinkKind::kShm, net::ShmFactory({})});
  }
  if (name == "ucx" && security.tls()) {
    return InvalidArgument(
        "the transport ucx does not encrypt, and this task has certificates: take auto or grpc");
  }
  if (name == "ucx" || (name == "auto" && !security.tls())) {
    choices.push_back({net::LinkKind::kUcx, net::UcxFactory({.host = def.address().host(),
                                                             .first_port = def.data_ports().first,
                                                             .last_port = def.data_ports().last,
                                                             .insecure = security.insecure})});
  }
  if (name == "grpc" || name == "auto") {
    choices.push_back(
        {net::LinkKind::kGrpc, net::GrpcFactory({.host = def.address().host(),
                                                 .ca_certificates = security.ca_certificates,
                                                 .certificate = security.certificate,
                                                 .private_key = security.private_key,
                                                 .insecure = security.insecure,
                                                 .door = options.door})});
  }
  if (choices.empty()) {
    return InvalidArgument(fmt::format("a server cannot use the transport {} by itself", name));
  }
  return choices;
}

}  // namespace

Result<std::unique_ptr<DataLinks>> DataLinks::Create(const Options& options) {
  const ServerDef& def = options.def;
  net::PeerLinksOptions made;
  made.self = def.number();
  for (const ClusterSpec::Task& task : def.cluster().tasks()) {
    made.tasks.push_back(task.id.ToString());
  }
  made.incarnation = options.incarnation;
  made.job_secret = options.security.job_secret;
  made.heartbeat = options.heartbeat;
  LS_ASSIGN_OR_RETURN(made.links, ChoicesOf(options));
  if (options.log != nullptr) {
    made.note = [log = options.log](const std::string& text) { log->Info(text); };
  }
  auto links = std::make_unique<DataLinks>(def.number(), options.incarnation);
  LS_ASSIGN_OR_RETURN(links->links_, net::PeerLinks::Create(std::move(made), links->book_));
  return links;
}

Status DataLinks::Connect(const std::vector<TaskStart>& tasks, const Deadline& deadline) {
  std::vector<net::PeerLinks::Peer> peers;
  for (const TaskStart& task : tasks) {
    peers.push_back({.peer = task.number, .incarnation = task.incarnation});
  }
  return links_->Connect(peers, std::min(deadline, Deadline::After(kConnectTimeout)));
}

void DataLinks::Book::Set(std::shared_ptr<CoordinatorClient> client) {
  const MutexLock lock(mu_);
  client_ = std::move(client);
  while (users_ > 0) {
    returned_.WaitUntil(mu_, Deadline::Infinite());
  }
}

Result<std::shared_ptr<CoordinatorClient>> DataLinks::Book::Take() {
  const MutexLock lock(mu_);
  if (client_ == nullptr) {
    return Unavailable("this server has stopped");
  }
  ++users_;
  return client_;
}

void DataLinks::Book::GiveBack(std::shared_ptr<CoordinatorClient> client) {
  client.reset();
  const MutexLock lock(mu_);
  --users_;
  returned_.NotifyAll();
}

Status DataLinks::Book::Put(const std::string& topic, std::string text, const Deadline& deadline) {
  LS_ASSIGN_OR_RETURN(std::shared_ptr<CoordinatorClient> client, Take());
  const Status status =
      client->Insert(KeyOf(number_, incarnation_, topic), text, /*overwrite=*/true, deadline);
  GiveBack(std::move(client));
  return status;
}

Result<std::string> DataLinks::Book::Get(net::PeerId peer, uint64_t incarnation,
                                         const std::string& topic, const Deadline& deadline) {
  for (;;) {
    LS_ASSIGN_OR_RETURN(std::shared_ptr<CoordinatorClient> client, Take());
    Result<std::string> text =
        client->Get(KeyOf(peer, incarnation, topic), std::min(deadline, Deadline::After(kLook)));
    GiveBack(std::move(client));
    if (text.status().code() != StatusCode::kDeadlineExceeded || deadline.expired()) {
      return text;
    }
    LS_TRY(PeerStatus(peer, incarnation));
  }
}

Status DataLinks::Book::PeerStatus(net::PeerId peer, uint64_t incarnation) {
  LS_ASSIGN_OR_RETURN(std::shared_ptr<CoordinatorClient> client, Take());
  const Member member = client->view().members.at(static_cast<size_t>(peer));
  GiveBack(std::move(client));
  // The view may be older than what the master knows, so one that it does not show may be there.
  return member.state == MemberState::kLost && member.incarnation == incarnation ? member.reason
                                                                                 : OkStatus();
}

}  // namespace lockstep::cluster
