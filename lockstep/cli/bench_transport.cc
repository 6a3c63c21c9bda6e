#include "lockstep/cli/bench_transport.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "lockstep/base/descriptor.h"
#include "lockstep/cluster/security/certificates.h"
#include "lockstep/net/grpc/grpc_provider.h"
#include "lockstep/net/ucx/ucx_provider.h"
#include "lockstep/net/waiter.h"
#include "lockstep/net/wire_up.h"

namespace lockstep::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Descriptor = lockstep::internal::Descriptor;

constexpr std::array<uint64_t, 6> kRoundTripBytes = {8, 64, 512, 4096, 16384, 65536};
constexpr std::array<uint64_t, 4> kStreamMegabytes = {1, 4, 16, 64};
constexpr uint64_t kMegabyte = uint64_t{1} << 20;
// Of a stream, at least; its step numbers keep away from those of the round trips.
constexpr uint64_t kStreamBytes = 128 * kMegabyte;
constexpr uint64_t kStreamStep = uint64_t{1} << 32;
constexpr auto kTimeout = std::chrono::seconds(60);

// Lengths and bytes over a stream socket: the addresses of the two processes.
class SocketExchange : public net::BlobExchange {
 public:
  explicit SocketExchange(int fd) : fd_(fd) {}

  Status Put(std::string blob, const Deadline&) override {
    const uint64_t size = blob.size();
    LS_TRY(lockstep::internal::WriteAll(fd_, "the other process", 0, &size, sizeof(size)));
    return lockstep::internal::WriteAll(fd_, "the other process", 0, blob.data(), size);
  }

  Result<std::string> Get(net::PeerId, const Deadline&) override {
    uint64_t size = 0;
    LS_TRY(ReadAll(&size, sizeof(size)));
    if (size > kMegabyte) {
      return Internal(fmt::format("addresses of {} bytes", size));
    }
    std::string blob(size, '\0');
    LS_TRY(ReadAll(blob.data(), size));
    return blob;
  }

 private:
  Status ReadAll(void* data, size_t size) const {
    if (recv(fd_, data, size, MSG_WAITALL) != static_cast<ssize_t>(size)) {
      return Unavailable("the other process has ended");
    }
    return OkStatus();
  }

  int fd_;
};

// What can be measured: a kind of link, or gRPC with certificates made for this run.
const std::array<std::string, 4> kLinks = {"shm", "ucx", "grpc", "grpc-tls"};

Result<net::GrpcOptions> WithTls() {
  net::GrpcOptions options;
  LS_ASSIGN_OR_RETURN(const cluster::CertificateAndKey authority, cluster::MakeAuthority({}));
  LS_ASSIGN_OR_RETURN(
      const cluster::CertificateAndKey task,
      cluster::IssueCertificate(authority, {.name = "bench", .hosts = {options.host}}));
  options.ca_certificates = authority.certificate;
  options.certificate = task.certificate;
  options.private_key = task.key;
  return options;
}

Result<std::unique_ptr<net::Transport>> Join(net::PeerId self, const net::LinkChoice& choice,
                                             int fd) {
  net::WireUpOptions options;
  options.self = self;
  options.tasks = {"/job:bench/task:0", "/job:bench/task:1"};
  options.job_secret = "bench";
  options.links = {choice};
  SocketExchange exchange(fd);
  return net::WireUp(options, exchange, Deadline::After(kTimeout));
}

net::MessageHeader HeaderFor(uint64_t bytes) {
  net::MessageHeader header;
  header.shape = Shape{static_cast<int64_t>(bytes)};
  header.bytes = bytes;
  return header;
}

double Seconds(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int64_t RoundTrips(uint64_t bytes, int64_t repeats) {
  return repeats * (bytes <= 4096 ? 400 : 100);
}

// Both processes call these with the same arguments.
Result<std::vector<double>> MeasureRoundTrips(net::Transport& transport, uint64_t bytes,
                                              int64_t rounds, std::vector<char>& out,
                                              std::vector<char>& in) {
  std::vector<double> times;
  const net::PeerId other = 1 - transport.self();
  for (int64_t round = 0; round < rounds; ++round) {
    const Deadline deadline = Deadline::After(kTimeout);
    const net::MessageKey key{.scope = bytes, .step = static_cast<uint64_t>(round), .item = 0};
    const auto start = Clock::now();
    net::Waiter waiter(transport);
    transport.Recv(other, key, in.data(), bytes, deadline, waiter.Received());
    if (transport.self() == 0) {
      transport.Send(other, key, HeaderFor(bytes), out.data(), deadline, waiter.Sent());
      LS_TRY(waiter.Wait());
      times.push_back(Seconds(start));
    } else {
      LS_TRY(waiter.Wait());
      transport.Send(other, key, HeaderFor(bytes), out.data(), deadline, waiter.Sent());
      LS_TRY(waiter.Wait());
    }
  }
  return times;
}

// Seconds of a block in each of `repeats` streams; the next block is announced while one is moved.
Result<std::vector<double>> MeasureStream(net::Transport& transport, uint64_t bytes,
                                          int64_t repeats, std::vector<char>& out,
                                          std::vector<char>& in) {
  const int64_t blocks = std::max<int64_t>(4, static_cast<int64_t>(kStreamBytes / bytes));
  std::vector<double> times;
  for (int64_t repeat = 0; repeat < repeats; ++repeat) {
    const auto post = [&](net::Waiter& waiter, int64_t block) {
      const net::MessageKey key{.scope = bytes,
                                .step = kStreamStep + static_cast<uint64_t>(repeat),
                                .item = static_cast<uint64_t>(block)};
      const Deadline deadline = Deadline::After(kTimeout);
      if (transport.self() == 0) {
        transport.Send(1, key, HeaderFor(bytes), out.data(), deadline, waiter.Sent());
      } else {
        transport.Recv(0, key, in.data(), bytes, deadline, waiter.Received());
      }
    };
    std::array<net::Waiter, 2> waiters{net::Waiter(transport), net::Waiter(transport)};
    const auto start = Clock::now();
    post(waiters[0], 0);
    for (int64_t block = 0; block < blocks; ++block) {
      if (block + 1 < blocks) {
        post(waiters[static_cast<size_t>((block + 1) % 2)], block + 1);
      }
      LS_TRY(waiters[static_cast<size_t>(block % 2)].Wait());
    }
    times.push_back(Seconds(start) / static_cast<double>(blocks));
  }
  return times;
}

struct LinkFigures {
  std::string link;
  std::vector<double> round_trip_us;   // of kRoundTripBytes
  std::vector<double> stream_seconds;  // of kStreamMegabytes
};

Result<LinkFigures> MeasureLink(net::Transport& transport, const std::string& link,
                                int64_t repeats) {
  LinkFigures figures{link, {}, {}};
  std::vector<char> out(kStreamMegabytes.back() * kMegabyte, 1);
  std::vector<char> in(out.size(), 2);
  for (const uint64_t bytes : kRoundTripBytes) {
    LS_ASSIGN_OR_RETURN(const std::vector<double> times,
                        MeasureRoundTrips(transport, bytes, RoundTrips(bytes, repeats), out, in));
    if (!times.empty()) {
      figures.round_trip_us.push_back(1e6 * Median(times));
    }
  }
  for (const uint64_t megabytes : kStreamMegabytes) {
    LS_ASSIGN_OR_RETURN(const std::vector<double> times,
                        MeasureStream(transport, megabytes * kMegabyte, repeats, out, in));
    figures.stream_seconds.push_back(Median(times));
  }
  return figures;
}

std::vector<double> MeasureMemcpy(int64_t repeats) {
  std::vector<char> from(kStreamMegabytes.back() * kMegabyte, 1);
  std::vector<char> to(from.size(), 2);
  std::vector<double> seconds;
  for (const uint64_t megabytes : kStreamMegabytes) {
    std::vector<double> times;
    for (int64_t i = 0; i < 2 * repeats; ++i) {
      const auto start = Clock::now();
      std::memcpy(to.data(), from.data(), megabytes * kMegabyte);
      // The copy is used, so that it takes place.
      from[static_cast<size_t>(i)] = to[megabytes * kMegabyte - 1];
      times.push_back(Seconds(start));
    }
    seconds.push_back(Median(times));
  }
  return seconds;
}

// The other end of one link. All are forked before the first link is made, since the threads of a
// link do not survive a fork; each waits for its turn.
class SecondProcess {
 public:
  SecondProcess(std::string link, net::LinkChoice choice, int64_t repeats)
      : link_(std::move(link)), choice_(std::move(choice)), repeats_(repeats) {}

  SecondProcess(const SecondProcess&) = delete;
  SecondProcess& operator=(const SecondProcess&) = delete;

  ~SecondProcess() {
    if (child_ > 0) {
      kill(child_, SIGKILL);
      waitpid(child_, nullptr, 0);
    }
  }

  const std::string& link() const { return link_; }

  Status Start();
  // Runs the link between this process and the other one.
  Result<LinkFigures> Measure();

 private:
  // What the child does.
  bool Take(int fd) const;

  const std::string link_;
  const net::LinkChoice choice_;
  const int64_t repeats_;
  Descriptor socket_{-1};
  pid_t child_ = 0;
};

Status SecondProcess::Start() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return Internal(fmt::format("socketpair: {}", std::strerror(errno)));
  }
  socket_ = Descriptor(ends[0]);
  Descriptor theirs(ends[1]);
  child_ = fork();
  if (child_ < 0) {
    return ResourceExhausted(fmt::format("fork: {}", std::strerror(errno)));
  }
  if (child_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    socket_.Close();
    _exit(Take(theirs.get()) ? 0 : 1);
  }
  return OkStatus();
}

bool SecondProcess::Take(int fd) const {
  char go = 0;
  if (recv(fd, &go, 1, MSG_WAITALL) != 1) {
    return false;
  }
  const Result<std::unique_ptr<net::Transport>> transport = Join(1, choice_, fd);
  const bool ok = transport.ok() && MeasureLink(**transport, link_, repeats_).ok();
  if (transport.ok()) {
    (*transport)->Close(Deadline::After(kTimeout));
  }
  return ok;
}

Result<LinkFigures> SecondProcess::Measure() {
  const char go = 1;
  LS_TRY(lockstep::internal::WriteAll(socket_.get(), "the other process", 0, &go, 1));
  LS_ASSIGN_OR_RETURN(const std::unique_ptr<net::Transport> transport,
                      Join(0, choice_, socket_.get()));
  LS_ASSIGN_OR_RETURN(LinkFigures figures, MeasureLink(*transport, link_, repeats_));
  waitpid(child_, nullptr, 0);
  child_ = 0;
  return figures;
}

double Rate(uint64_t megabytes, double seconds) {
  return static_cast<double>(megabytes * kMegabyte) / seconds / 1e9;
}

void PrintTable(const std::vector<LinkFigures>& all, const std::vector<double>& copy) {
  fmt::print("{:<22}", "round trip, us");
  for (const uint64_t bytes : kRoundTripBytes) {
    fmt::print("{:>11}", fmt::format("{} B", bytes));
  }
  fmt::print("\n");
  for (const LinkFigures& figures : all) {
    fmt::print("{:<22}", figures.link);
    for (const double time : figures.round_trip_us) {
      fmt::print("{:>11.2f}", time);
    }
    fmt::print("\n");
  }
  fmt::print("\n{:<22}", "stream, GB/s");
  for (const uint64_t megabytes : kStreamMegabytes) {
    fmt::print("{:>17}", fmt::format("{} MB", megabytes));
  }
  fmt::print("\n{:<22}", "memcpy");
  for (size_t i = 0; i < copy.size(); ++i) {
    fmt::print("{:>17.2f}", Rate(kStreamMegabytes[i], copy[i]));
  }
  fmt::print("\n");
  for (const LinkFigures& figures : all) {
    fmt::print("{:<22}", figures.link);
    for (size_t i = 0; i < copy.size(); ++i) {
      const double seconds = figures.stream_seconds[i];
      fmt::print("{:>17}", fmt::format("{:.2f} ({:.0f} %)", Rate(kStreamMegabytes[i], seconds),
                                       100 * copy[i] / seconds));
    }
    fmt::print("\n");
  }
}

void PrintJson(const std::vector<LinkFigures>& all, const std::vector<double>& copy) {
  nlohmann::ordered_json json;
  for (size_t i = 0; i < copy.size(); ++i) {
    json["memcpy"][fmt::format("stream_{}mb_gbps", kStreamMegabytes[i])] =
        Rate(kStreamMegabytes[i], copy[i]);
  }
  for (const LinkFigures& figures : all) {
    nlohmann::ordered_json& link = json["links"][figures.link];
    for (size_t i = 0; i < figures.round_trip_us.size(); ++i) {
      link[fmt::format("round_trip_{}b_us", kRoundTripBytes[i])] = figures.round_trip_us[i];
    }
    for (size_t i = 0; i < copy.size(); ++i) {
      link[fmt::format("stream_{}mb_gbps", kStreamMegabytes[i])] =
          Rate(kStreamMegabytes[i], figures.stream_seconds[i]);
      link[fmt::format("stream_{}mb_of_memcpy", kStreamMegabytes[i])] =
          copy[i] / figures.stream_seconds[i];
    }
  }
  fmt::print("{}\n", json.dump());
}

}  // namespace

Result<net::LinkChoice> MeasuredLink(const std::string& name) {
  if (name == "shm") {
    return net::LinkChoice{net::LinkKind::kShm, net::ShmFactory({})};
  }
  if (name == "ucx") {
    // Over loopback, as between hosts: UCX would otherwise choose shared memory too.
    return net::LinkChoice{net::LinkKind::kUcx,
                           net::UcxFactory({.transports = "tcp,self", .net_devices = "lo"})};
  }
  net::GrpcOptions options;
  if (name == "grpc-tls") {
    LS_ASSIGN_OR_RETURN(options, WithTls());
  } else if (name != "grpc") {
    return InvalidArgument(
        fmt::format("cannot measure '{}': allowed are {}", name, fmt::join(kLinks, ", ")));
  }
  return net::LinkChoice{net::LinkKind::kGrpc, net::GrpcFactory(options)};
}

Outcome BenchTransport(const BenchTransportFlags& flags) {
  std::vector<std::string> links = flags.links;
  if (links.empty()) {
    links.assign(kLinks.begin(), kLinks.end());
  }
  std::vector<std::unique_ptr<SecondProcess>> others;
  for (const std::string& link : links) {
    Result<net::LinkChoice> choice = MeasuredLink(link);
    if (!choice.ok()) {
      return Fail(ExitCode::kUsage, choice.status());
    }
    others.push_back(
        std::make_unique<SecondProcess>(link, std::move(choice).value(), flags.repeats));
    if (const Status started = others.back()->Start(); !started.ok()) {
      return Fail(ExitCode::kOther, started);
    }
  }
  std::vector<LinkFigures> all;
  for (const auto& other : others) {
    Result<LinkFigures> figures = other->Measure();
    if (!figures.ok()) {
      return Fail(ExitCode::kOther, figures.status().With("link " + other->link()));
    }
    all.push_back(std::move(figures).value());
  }
  const std::vector<double> copy = MeasureMemcpy(flags.repeats);
  if (flags.json) {
    PrintJson(all, copy);
  } else {
    PrintTable(all, copy);
  }
  return Done();
}

}  // namespace lockstep::cli
