#include "lockstep/cluster/testing/local_cluster.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <thread>

#include "lockstep/base/descriptor.h"

namespace lockstep::cluster {

std::vector<int> FreePorts(int count) {
  // Held together, so that no port comes twice.
  std::vector<lockstep::internal::Descriptor> sockets;
  std::vector<int> ports;
  for (int i = 0; i < count; ++i) {
    sockets.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    LS_CHECK(bind(sockets.back().get(), generic, size) == 0);
    LS_CHECK(getsockname(sockets.back().get(), generic, &size) == 0);
    ports.push_back(ntohs(address.sin_port));
  }
  return ports;
}

ClusterSpec LocalSpec(const std::map<std::string, int>& jobs) {
  int total = 0;
  for (const auto& [job, tasks] : jobs) {
    total += tasks;
  }
  const std::vector<int> ports = FreePorts(total);
  std::map<std::string, std::vector<std::string>> addresses;
  size_t next = 0;
  for (const auto& [job, tasks] : jobs) {
    for (int i = 0; i < tasks; ++i) {
      addresses[job].push_back(fmt::format("127.0.0.1:{}", ports[next++]));
    }
  }
  return ClusterSpec::Create(addresses).value();
}

LocalCluster::LocalCluster(ClusterSpec spec, const ServerOptions& options)
    : LocalCluster(std::move(spec), "auto", [&](int) { return options; }) {}

LocalCluster::LocalCluster(ClusterSpec spec, const std::string& transport,
                           const std::function<ServerOptions(int)>& options)
    : spec_(std::move(spec)) {
  for (const ClusterSpec::Task& task : spec_.tasks()) {
    ServerDef::Options def;
    def.job = task.id.job;
    def.index = task.id.index;
    def.transport = transport;
    servers_.push_back(Server::Create(ServerDef::Create(spec_, std::move(def)).value(),
                                      options(static_cast<int>(servers_.size())))
                           .value());
  }
}

Status LocalCluster::ForEach(const std::function<Status(Server&)>& run) {
  std::vector<Status> results(servers_.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < servers_.size(); ++i) {
    if (servers_[i] != nullptr) {
      threads.emplace_back([&, i] { results[i] = run(*servers_[i]); });
    }
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const Status& result : results) {
    LS_TRY(result);
  }
  return OkStatus();
}

}  // namespace lockstep::cluster
