#include "lockstep/cli/bench_all_reduce.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/file.h"
#include "lockstep/base/quote.h"
#include "lockstep/cli/bench_processes.h"
#include "lockstep/cli/bench_transport.h"
#include "lockstep/cli/number_range.h"
#include "lockstep/collective/group.h"
#include "lockstep/net/ucx/ucx_provider.h"
#include "lockstep/tensor/buffer.h"

namespace lockstep::cli {
namespace {

using Clock = std::chrono::steady_clock;
// Seconds of one all-reduce by its bytes.
using Seconds = std::map<uint64_t, double>;

constexpr auto kTimeout = std::chrono::seconds(60);
constexpr std::string_view kGlooScript = "gloo_all_reduce.py";
constexpr std::string_view kMpiScript = "mpi_all_reduce.py";

struct Flags {
  int workers = 2;
  std::vector<uint64_t> sizes = {4096, 262144, 4194304, 104857600};  // bytes
  std::string transport = "shm";
  std::string algorithm = "auto";
  // Of the network, one for each process; none: all are in this one.
  std::vector<std::string> namespaces;
  std::string device = "eth0";
  int rounds = 3;
  bool peers = false;
  std::string python = "python3";
  std::string peer_folder = "bench/peers";
  bool json = false;
};

int64_t Repeats(uint64_t bytes) {
  return std::clamp<int64_t>(static_cast<int64_t>(1'000'000'000 / bytes), 8, 2000);
}

int64_t WarmUp(uint64_t bytes) {
  return 2 + Repeats(bytes) / 5;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// The median time of `once`, which all processes call equally often.
Result<double> Measure(uint64_t bytes, const std::function<Status()>& once) {
  std::vector<double> times;
  for (int64_t i = -WarmUp(bytes); i < Repeats(bytes); ++i) {
    const auto start = Clock::now();
    LS_TRY(once());
    if (i >= 0) {
      times.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    }
  }
  return Median(std::move(times));
}

std::string ToText(const std::map<std::string, Seconds>& rows) {
  nlohmann::json json;
  for (const auto& [row, seconds] : rows) {
    for (const auto& [bytes, time] : seconds) {
      json[row][std::to_string(bytes)] = time;
    }
  }
  return json.dump();
}

Result<std::map<std::string, Seconds>> FromText(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  std::map<std::string, Seconds> rows;
  if (!json.is_object()) {
    return Internal("a measurement printed no JSON object");
  }
  for (const auto& [row, seconds] : json.items()) {
    for (const auto& [bytes, time] : seconds.items()) {
      if (!time.is_number()) {
        return Internal(fmt::format("a measurement printed no time for {} bytes", bytes));
      }
      rows[row][std::strtoull(bytes.c_str(), nullptr, 10)] = time.get<double>();
    }
  }
  return rows;
}

// One size, in memory of one kind. The first sum is checked.
Result<double> MeasureGroup(const Flags& flags, collective::Group& group, uint64_t bytes,
                            float* values) {
  const auto elements = static_cast<int64_t>(bytes / sizeof(float));
  LS_ASSIGN_OR_RETURN(const collective::Algorithm algorithm,
                      collective::ParseAlgorithm(flags.algorithm));
  const collective::CallSpec spec{
      .name = "bench", .shape = Shape{elements}, .algorithm = algorithm};
  const collective::Call call = collective::AllReduceCall(spec, {values}, values);
  const auto once = [&] { return group.Run(call, Deadline::After(kTimeout)); };
  std::fill(values, values + elements, static_cast<float>(group.self() + 1));
  LS_TRY(once());
  const int members = group.members();
  const auto sum = static_cast<float>(members * (members + 1) / 2);
  if (!std::all_of(values, values + elements, [sum](float value) { return value == sum; })) {
    return Internal("the sum is wrong");
  }
  std::fill(values, values + elements, 0.0F);
  return Measure(bytes, once);
}

// Moves this process into a namespace of the network, as `ip netns exec` does. UCX looks for
// devices in /sys, which shows those of the namespace in which it was mounted.
Status EnterNamespace(const std::string& name) {
  const std::string path = fmt::format("/run/netns/{}", name);
  const lockstep::internal::Descriptor entry(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const bool entered = entry.get() >= 0 && setns(entry.get(), CLONE_NEWNET) == 0 &&
                       unshare(CLONE_NEWNS) == 0 &&
                       mount("", "/", "none", MS_SLAVE | MS_REC, nullptr) == 0 &&
                       mount("sysfs", "/sys", "sysfs", 0, nullptr) == 0;
  return entered
             ? OkStatus()
             : PermissionDenied(fmt::format("--namespaces: {}: {}", path, std::strerror(errno)));
}

Result<net::LinkChoice> LinkOf(const Flags& flags, int self) {
  if (flags.namespaces.empty()) {
    return MeasuredLink(flags.transport);
  }
  LS_TRY(EnterNamespace(flags.namespaces[static_cast<size_t>(self)]));
  return net::LinkChoice{net::LinkKind::kUcx,
                         net::UcxFactory({.transports = "tcp,self", .net_devices = flags.device})};
}

Result<std::string> RunOurs(const Flags& flags, int self, net::BlobExchange& exchange) {
  net::WireUpOptions options;
  options.self = self;
  options.job_secret = "bench";
  collective::GroupOptions group_options{.name = "bench"};
  for (int task = 0; task < flags.workers; ++task) {
    options.tasks.push_back(fmt::format("/job:bench/task:{}", task));
    group_options.tasks.push_back(task);
  }
  LS_ASSIGN_OR_RETURN(net::LinkChoice link, LinkOf(flags, self));
  options.links = {std::move(link)};
  LS_ASSIGN_OR_RETURN(const std::unique_ptr<net::Transport> transport,
                      net::WireUp(options, exchange, Deadline::After(kTimeout)));
  LS_ASSIGN_OR_RETURN(
      const std::unique_ptr<collective::Group> group,
      collective::Group::Create(*transport, group_options, Deadline::After(kTimeout)));
  std::map<std::string, Seconds> rows;
  for (const uint64_t bytes : flags.sizes) {
    LS_ASSIGN_OR_RETURN(const std::shared_ptr<Buffer> own, Buffer::Allocate(bytes));
    LS_ASSIGN_OR_RETURN(rows["lockstep, any memory"][bytes],
                        MeasureGroup(flags, *group, bytes, static_cast<float*>(own->data())));
    if (group->shares_memory()) {
      LS_ASSIGN_OR_RETURN(const std::shared_ptr<net::Region> region, group->Allocate(bytes));
      LS_ASSIGN_OR_RETURN(rows["lockstep, buckets"][bytes],
                          MeasureGroup(flags, *group, bytes, static_cast<float*>(region->data())));
    }
  }
  LS_TRY(group->Run(collective::BarrierCall("end"), Deadline::After(kTimeout)));
  return ToText(rows);
}

// Memory that the processes of a measurement share: a counter, and a value for each.
class PlainMemory {
 public:
  PlainMemory(int workers, uint64_t bytes) : bytes_(bytes) {
    size_ = kHeaderBytes + static_cast<size_t>(workers) * bytes;
    data_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  }

  PlainMemory(const PlainMemory&) = delete;
  PlainMemory& operator=(const PlainMemory&) = delete;

  ~PlainMemory() {
    if (ok()) {
      munmap(data_, size_);
    }
  }

  bool ok() const { return data_ != MAP_FAILED; }

  uint64_t bytes() const { return bytes_; }

  std::atomic<uint64_t>& arrived() { return *static_cast<std::atomic<uint64_t>*>(data_); }

  float* value(int worker) {
    return reinterpret_cast<float*>(static_cast<char*>(data_) + kHeaderBytes +
                                    static_cast<size_t>(worker) * bytes_);
  }

 private:
  static constexpr size_t kHeaderBytes = 4096;

  uint64_t bytes_;
  size_t size_;
  void* data_;
};

// Each process adds a slice of all values and writes the sum into all of them, between two
// barriers: what the memory of this machine allows.
Status AddPlain(PlainMemory& memory, int workers, int self, uint64_t* barriers) {
  const auto barrier = [&] {
    *barriers += static_cast<uint64_t>(workers);
    memory.arrived().fetch_add(1);
    while (memory.arrived().load() < *barriers) {
    }
  };
  barrier();
  const auto elements = static_cast<int64_t>(memory.bytes() / sizeof(float));
  const collective::Part slice = collective::EvenPart(elements, workers, self);
  constexpr int64_t kStrip = 2048;
  for (int64_t begin = slice.begin; begin < slice.begin + slice.count; begin += kStrip) {
    const int64_t count = std::min(kStrip, slice.begin + slice.count - begin);
    float* sum = memory.value(0) + begin;
    for (int other = 1; other < workers; ++other) {
      collective::Combine(collective::ReduceOp::kSum, DType::kFloat32, sum,
                          memory.value(other) + begin, sum, count);
    }
    for (int other = 1; other < workers; ++other) {
      std::copy(sum, sum + count, memory.value(other) + begin);
    }
  }
  barrier();
  return OkStatus();
}

Result<std::map<std::string, Seconds>> MeasurePlain(const Flags& flags) {
  std::map<std::string, Seconds> rows;
  for (const uint64_t bytes : flags.sizes) {
    PlainMemory memory(flags.workers, bytes);
    if (!memory.ok()) {
      return ResourceExhausted(fmt::format("no shared memory for {} bytes", bytes));
    }
    LS_ASSIGN_OR_RETURN(
        const std::string text,
        RunForked(flags.workers, [&](int self, net::BlobExchange& exchange) -> Result<std::string> {
          LS_TRY(exchange.Put("", Deadline::After(kTimeout)));
          uint64_t barriers = 0;
          LS_ASSIGN_OR_RETURN(const double time, Measure(bytes, [&] {
                                return AddPlain(memory, flags.workers, self, &barriers);
                              }));
          return ToText({{"plain shared memory", {{bytes, time}}}});
        }));
    LS_ASSIGN_OR_RETURN(const auto one, FromText(text));
    for (const auto& [row, seconds] : one) {
      rows[row].insert(seconds.begin(), seconds.end());
    }
  }
  return rows;
}

// What a script of the folder of peers prints. Empty, with the reason on standard error, if the
// peer is not installed.
std::map<std::string, Seconds> MeasurePeer(const Flags& flags, std::string_view script) {
  std::string command = fmt::format("'{}' '{}/{}' --workers {}", flags.python, flags.peer_folder,
                                    script, flags.workers);
  for (const uint64_t bytes : flags.sizes) {
    command += fmt::format(" {}:{}:{}", bytes, WarmUp(bytes), Repeats(bytes));
  }
  const auto close = [](FILE* pipe) { return pclose(pipe); };
  const std::unique_ptr<FILE, decltype(close)> pipe(popen(command.c_str(), "r"), close);
  std::string text;
  std::array<char, 4096> piece{};
  while (pipe != nullptr && std::fgets(piece.data(), piece.size(), pipe.get()) != nullptr) {
    text += piece.data();
  }
  Result<std::map<std::string, Seconds>> rows = FromText(text);
  if (!rows.ok()) {
    PrintWarning(fmt::format("skipped: {}: no result", command));
    return {};
  }
  return std::move(rows).value();
}

void PrintTable(const Flags& flags, const std::map<std::string, Seconds>& rows) {
  fmt::print("{:<24}", "microseconds");
  for (const uint64_t bytes : flags.sizes) {
    fmt::print("{:>14}", fmt::format("{} B", bytes));
  }
  fmt::print("\n");
  for (const auto& [row, seconds] : rows) {
    fmt::print("{:<24}", row);
    for (const uint64_t bytes : flags.sizes) {
      fmt::print("{:>14.1f}", 1e6 * seconds.at(bytes));
    }
    fmt::print("\n");
  }
}

void PrintJson(const Flags& flags, const std::map<std::string, Seconds>& rows) {
  nlohmann::ordered_json json;
  json["workers"] = flags.workers;
  json["transport"] = flags.transport;
  for (const auto& [row, seconds] : rows) {
    for (const auto& [bytes, time] : seconds) {
      json["seconds"][row][std::to_string(bytes)] = time;
    }
  }
  fmt::print("{}\n", json.dump());
}

// The median over rounds, in each of which all are measured one after another.
Result<std::map<std::string, Seconds>> MeasureAll(const Flags& flags) {
  std::map<std::string, std::map<uint64_t, std::vector<double>>> all;
  const auto add = [&all](const std::map<std::string, Seconds>& rows) {
    for (const auto& [row, seconds] : rows) {
      for (const auto& [bytes, time] : seconds) {
        all[row][bytes].push_back(time);
      }
    }
  };
  for (int round = 0; round < flags.rounds; ++round) {
    LS_ASSIGN_OR_RETURN(const std::string text,
                        RunForked(flags.workers, [&](int self, net::BlobExchange& exchange) {
                          return RunOurs(flags, self, exchange);
                        }));
    LS_ASSIGN_OR_RETURN(const auto ours, FromText(text));
    add(ours);
    if (flags.transport == "shm") {
      LS_ASSIGN_OR_RETURN(const auto plain, MeasurePlain(flags));
      add(plain);
    }
    if (flags.peers) {
      add(MeasurePeer(flags, kGlooScript));
      add(MeasurePeer(flags, kMpiScript));
    }
  }
  std::map<std::string, Seconds> medians;
  for (const auto& [row, sizes] : all) {
    for (const auto& [bytes, times] : sizes) {
      medians[row][bytes] = Median(times);
    }
  }
  return medians;
}

// Where the shell would find the program.
bool IsProgram(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    return access(name.c_str(), X_OK) == 0;
  }
  const char* const variable = std::getenv("PATH");
  std::string_view path = variable == nullptr ? "" : variable;
  while (!path.empty()) {
    const std::string_view folder = path.substr(0, path.find(':'));
    path.remove_prefix(std::min(path.size(), folder.size() + 1));
    if (access(fmt::format("{}/{}", folder, name).c_str(), X_OK) == 0) {
      return true;
    }
  }
  return false;
}

// Before anything is measured, which takes minutes.
Status CheckPeers(const Flags& flags) {
  if (!IsProgram(flags.python)) {
    return NotFound(fmt::format("--python: there is no program {}", Quoted(flags.python)));
  }
  for (const std::string_view script : {kGlooScript, kMpiScript}) {
    const std::string path = fmt::format("{}/{}", flags.peer_folder, script);
    if (access(path.c_str(), R_OK) != 0) {
      return ErrnoStatus(errno, path, "read").With("--peer-folder");
    }
  }
  return OkStatus();
}

Outcome BenchAllReduce(const Flags& flags) {
  for (const uint64_t bytes : flags.sizes) {
    if (bytes % sizeof(float) != 0) {
      return Fail(ExitCode::kUsage,
                  InvalidArgument(fmt::format("--sizes: {} is no multiple of 4", bytes)));
    }
  }
  if (!flags.namespaces.empty() &&
      (flags.transport != "ucx" || flags.namespaces.size() != static_cast<size_t>(flags.workers))) {
    return Fail(ExitCode::kUsage,
                InvalidArgument("--namespaces: one for each of --workers, with --transport ucx"));
  }
  if (flags.peers) {
    if (Status status = CheckPeers(flags); !status.ok()) {
      return Fail(ExitCode::kUsage, std::move(status));
    }
  }
  const Result<std::map<std::string, Seconds>> rows = MeasureAll(flags);
  if (!rows.ok()) {
    return Fail(CodeOf(rows.status()), rows.status());
  }
  if (flags.json) {
    PrintJson(flags, *rows);
  } else {
    PrintTable(flags, *rows);
  }
  return Done();
}

}  // namespace

void AddBenchAllReduce(CLI::App& bench, Outcome& outcome) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = bench.add_subcommand(
      "allreduce", "Sums among processes, beside plain shared memory, Gloo and Open MPI");
  command->add_option("--workers", flags->workers, "Processes, 2 to 64 (2)")
      ->type_name("N")
      ->check(InRange(2, 64));
  command
      ->add_option("--sizes", flags->sizes,
                   "Bytes of the value, multiples of 4 (4096,262144,4194304,104857600)")
      ->type_name("BYTES,BYTES")
      ->delimiter(',')
      ->check(InRange(uint64_t{4}, uint64_t{1} << 32));
  command->add_option("--transport", flags->transport, "shm, ucx, grpc or grpc-tls (shm)")
      ->type_name("LINK")
      ->check(CLI::IsMember({"shm", "ucx", "grpc", "grpc-tls"}));
  command
      ->add_option("--algorithm", flags->algorithm,
                   "auto, gather, pairwise, halving_doubling, two_level or shared (auto)")
      ->type_name("NAME")
      ->check(
          CLI::IsMember({"auto", "gather", "pairwise", "halving_doubling", "two_level", "shared"}));
  command
      ->add_option("--namespaces", flags->namespaces,
                   "Network namespaces that the processes go to, for --transport ucx")
      ->type_name("NAME,NAME")
      ->delimiter(',');
  command->add_option("--device", flags->device, "Their network device (eth0)")->type_name("NAME");
  command->add_option("--rounds", flags->rounds, "Rounds whose median is shown, 1 to 1000 (3)")
      ->type_name("N")
      ->check(InRange(1, 1000));
  command->add_flag("--peers", flags->peers, "Measure Gloo and Open MPI too");
  command->add_option("--python", flags->python, "A Python with PyTorch, for Gloo (python3)")
      ->type_name("PROGRAM")
      ->needs("--peers");
  command->add_option("--peer-folder", flags->peer_folder, "Their scripts (bench/peers)")
      ->type_name("DIR")
      ->needs("--peers");
  command->add_flag("--json", flags->json, "One JSON object instead of a table");
  command->callback([flags, &outcome] { outcome = BenchAllReduce(*flags); });
}

}  // namespace lockstep::cli
