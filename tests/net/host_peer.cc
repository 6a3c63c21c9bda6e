// One task of a small job whose tasks are on different hosts, for hosts_test.py. The tasks learn
// each other's addresses through files in a folder, connect, exchange messages of several sizes
// with everyone, and check every byte; with `--hold N` they then wait for what task N never
// sends and say why the waiting ended.
//
//   host_peer --self 0 --tasks 3 --folder DIR --links ucx,grpc --host a [--port 4000] [--insecure]
//             [--ca F --cert F --key F] [--heartbeat SECONDS] [--rounds N] [--hold N]
//
// Exit codes: 0, 2 for wrong arguments, 3 when a peer cannot be reached or is lost.
#include <fmt/format.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/file.h"
#include "lockstep/net/grpc/grpc_provider.h"
#include "lockstep/net/ucx/ucx_provider.h"
#include "lockstep/net/waiter.h"
#include "lockstep/net/wire_up.h"
#include "tests/net/host_flags.h"

namespace {

using namespace lockstep;  // NOLINT(google-build-using-namespace)

constexpr size_t kSizes[] = {0, 1, 5000, 100003, (3 << 20) + 1};

class FolderExchange : public net::BlobExchange {
 public:
  FolderExchange(std::string folder, int self) : folder_(std::move(folder)), self_(self) {}

  Status Put(std::string blob, const Deadline& /*deadline*/) override {
    return WriteFileAtomic(fmt::format("{}/{}", folder_, self_), blob);
  }

  Result<std::string> Get(net::PeerId task, const Deadline& deadline) override {
    const std::string path = fmt::format("{}/{}", folder_, task);
    while (!std::filesystem::exists(path)) {
      if (deadline.expired()) {
        return DeadlineExceeded(fmt::format("task {} did not start", task));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return ReadFile(path, 1 << 20);
  }

 private:
  const std::string folder_;
  const int self_;
};

Result<net::WireUpOptions> OptionsOf(const HostFlags& flags) {
  net::WireUpOptions options;
  options.self = flags.Number("--self", 0);
  for (int task = 0; task < flags.Number("--tasks", 2); ++task) {
    options.tasks.push_back(fmt::format("/job:worker/task:{}", task));
  }
  options.job_secret = flags.Text("--secret", "the secret of this test");
  options.heartbeat = std::chrono::seconds(flags.Number("--heartbeat", 5));
  const std::string links = flags.Text("--links", "ucx,grpc");
  const bool one_kind = links.find(',') == std::string::npos;
  if (links.find("ucx") != std::string::npos) {
    options.links.push_back(
        {net::LinkKind::kUcx,
         net::UcxFactory({.host = flags.Text("--host"), .insecure = flags.Has("--insecure")}),
         !one_kind});
  }
  if (links.find("grpc") != std::string::npos) {
    net::GrpcOptions grpc;
    grpc.host = flags.Text("--host");
    grpc.first_port = grpc.last_port = flags.Number("--port", 0);
    grpc.insecure = flags.Has("--insecure");
    if (flags.Has("--ca")) {
      LS_ASSIGN_OR_RETURN(grpc.ca_certificates, ReadFile(flags.Text("--ca"), 1 << 20));
      LS_ASSIGN_OR_RETURN(grpc.certificate, ReadFile(flags.Text("--cert"), 1 << 20));
      LS_ASSIGN_OR_RETURN(grpc.private_key, ReadFile(flags.Text("--key"), 1 << 20));
    }
    options.links.push_back({net::LinkKind::kGrpc, net::GrpcFactory(grpc), !one_kind});
  }
  return options;
}

net::MessageHeader Bytes(size_t bytes) {
  net::MessageHeader header;
  header.shape = Shape{static_cast<int64_t>(bytes)};
  header.bytes = bytes;
  return header;
}

std::vector<char> Pattern(size_t bytes, int from, int round) {
  std::vector<char> data(bytes);
  for (size_t i = 0; i < bytes; ++i) {
    data[i] = static_cast<char>((i * 31 + (i >> 9)) + static_cast<size_t>(from * 7 + round));
  }
  return data;
}

Status Exchange(net::Transport& transport, int round) {
  net::Waiter waiter(transport);
  std::vector<std::vector<char>> out;
  std::map<std::pair<int, size_t>, std::vector<char>> in;
  const Deadline deadline = Deadline::After(std::chrono::seconds(60));
  const auto key = [round](size_t item) {
    return net::MessageKey{.scope = 1, .step = static_cast<uint64_t>(round), .item = item};
  };
  for (size_t item = 0; item < std::size(kSizes); ++item) {
    out.push_back(Pattern(kSizes[item], transport.self(), round));
    for (int peer = 0; peer < transport.num_tasks(); ++peer) {
      if (peer != transport.self()) {
        std::vector<char>& buffer = in[{peer, item}];
        buffer.resize(kSizes[item]);
        transport.Recv(peer, key(item), buffer.data(), buffer.size(), deadline, waiter.Received());
        transport.Send(peer, key(item), Bytes(out[item].size()), out[item].data(), deadline,
                       waiter.Sent());
      }
    }
  }
  LS_TRY(waiter.Wait());
  for (const auto& [from, data] : in) {
    if (data != Pattern(data.size(), from.first, round)) {
      return DataLoss(fmt::format("{} bytes from task {} differ", data.size(), from.first));
    }
  }
  return OkStatus();
}

Status Run(const HostFlags& flags) {
  LS_ASSIGN_OR_RETURN(const net::WireUpOptions options, OptionsOf(flags));
  FolderExchange exchange(flags.Text("--folder"), options.self);
  LS_ASSIGN_OR_RETURN(
      const std::unique_ptr<net::Transport> transport,
      net::WireUp(options, exchange,
                  Deadline::After(std::chrono::seconds(flags.Number("--timeout", 30)))));
  std::printf("%s\n", net::DescribeLinks(*transport).c_str());
  const int rounds = flags.Number("--rounds", 3);
  for (int round = 0; round < rounds; ++round) {
    LS_TRY(Exchange(*transport, round));
  }
  std::printf("exchanged\n");
  std::fflush(stdout);
  if (flags.Has("--hold")) {
    const net::PeerId held = flags.Number("--hold", 0);
    char byte = 0;
    LS_TRY(net::RecvAndWait(*transport, held == options.self ? 0 : held, {.scope = 2}, &byte, 1,
                            Deadline::After(std::chrono::seconds(60)))
               .status());
  }
  transport->Close(Deadline::After(std::chrono::seconds(10)));
  return OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  const HostFlags flags(argc, argv);
  if (!flags.Has("--folder") || !flags.Has("--host")) {
    std::fprintf(stderr, "--folder and --host are needed\n");
    return 2;
  }
  const Status status = Run(flags);
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return 3;
  }
  return 0;
}
