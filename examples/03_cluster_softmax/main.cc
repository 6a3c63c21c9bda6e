// Softmax regression on MNIST over a cluster: every process starts a server; the chief builds one
// graph whose ops and variables are placed on the tasks by device scopes, and runs it through a
// session on its server. Without ps tasks the variables are the chief's, with ps they are there;
// every worker computes the gradient of its share of each batch.
//
//   example_03_cluster_softmax [DATA_FOLDER [STEPS [HOST:PORT,HOST:PORT,... TASK]]]
//
// Without addresses, the cluster is what TF_CONFIG, Slurm or MPI say. Certificates and the job's
// secret are what LOCKSTEP_CA_FILE, _CERT_FILE, _KEY_FILE and _JOB_SECRET say.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/cluster/client/remote_session.h"
#include "lockstep/cluster/resolver/resolve.h"
#include "lockstep/cluster/security/security_flags.h"
#include "lockstep/cluster/server/server.h"
#include "lockstep/data/batcher.h"
#include "lockstep/data/idx_folder.h"
#include "lockstep/net/grpc/grpc_log.h"
#include "lockstep/op/add_n.h"
#include "lockstep/op/apply.h"
#include "lockstep/op/arg_max.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/catalog.h"
#include "lockstep/op/const.h"
#include "lockstep/op/matmul.h"
#include "lockstep/op/placeholder.h"
#include "lockstep/op/reduce.h"
#include "lockstep/op/sparse_softmax_cross_entropy.h"
#include "lockstep/op/variable.h"
#include "lockstep/pass/gradients.h"

namespace {

using namespace lockstep;  // NOLINT(google-build-using-namespace)
using std::chrono::milliseconds;

constexpr int64_t kBatch = 100;
constexpr int64_t kPixels = 784;
// A lost task is known to all within twice this time.
constexpr milliseconds kHeartbeat{2000};

struct Arguments {
  std::string data = "data/mnist";
  int64_t steps = 1000;
  std::string addresses;
  int task = 0;
};

struct Tower {
  Value images, labels, prediction;
};

struct Program {
  std::vector<Tower> towers;
  std::vector<Node*> train;
};

// One tower for each worker, one copy of the variables.
Result<Program> Build(Builder& b, int workers, const std::string& variables) {
  Program program;
  Value w;
  Value bias;
  {
    DeviceScope device(b, variables);
    w = op::Variable(b, "w", op::Const(b, Tensor::Zeros(DType::kFloat32, {kPixels, 10})));
    bias = op::Variable(b, "b", op::Const(b, Tensor::Zeros(DType::kFloat32, {10})));
  }
  std::vector<Value> w_gradients;
  std::vector<Value> b_gradients;
  for (int i = 0; i < workers; ++i) {
    DeviceScope device(b, fmt::format("/job:worker/task:{}", i));
    Tower tower;
    tower.images = op::Placeholder(b, DType::kFloat32, {-1, kPixels}, fmt::format("images{}", i));
    tower.labels = op::Placeholder(b, DType::kInt32, {-1}, fmt::format("labels{}", i));
    const Value logits = op::Add(b, op::MatMul(b, tower.images, w), bias);
    tower.prediction = op::ArgMax(b, logits);
    const Value losses = op::SparseSoftmaxCrossEntropyWithLogits(b, logits, tower.labels).loss;
    const Value loss[] = {op::Mul(b, op::ReduceSum(b, losses), op::Scalar(b, 1.0 / kBatch))};
    LS_TRY(b.status());
    const Value parameters[] = {w, bias};
    LS_ASSIGN_OR_RETURN(const std::vector<Gradient> gradients,
                        pass::Gradients(b, loss, parameters));
    w_gradients.push_back(gradients[0].dense);
    b_gradients.push_back(gradients[1].dense);
    program.towers.push_back(tower);
  }
  DeviceScope device(b, variables);
  const Value rate = op::Scalar(b, 0.5);
  program.train = {op::ApplyGradientDescent(b, w, rate, op::AddN(b, w_gradients)).node,
                   op::ApplyGradientDescent(b, bias, rate, op::AddN(b, b_gradients)).node};
  LS_TRY(b.status());
  return program;
}

// Feeds every tower its share of the samples.
Status Feed(const data::Split& split, std::span<const uint32_t> samples, const Program& program,
            cluster::RemoteSession::FeedList& feeds) {
  const auto towers = static_cast<int64_t>(program.towers.size());
  for (int64_t i = 0; i < towers; ++i) {
    const auto range = data::ReplicaRange({0, static_cast<int64_t>(samples.size())},
                                          static_cast<int>(i), static_cast<int>(towers));
    LS_ASSIGN_OR_RETURN(Tensor images, Tensor::Allocate(DType::kFloat32, {range.count, kPixels}));
    LS_ASSIGN_OR_RETURN(Tensor labels, Tensor::Allocate(DType::kInt32, {range.count}));
    split.Gather(
        samples.subspan(static_cast<size_t>(range.begin), static_cast<size_t>(range.count)),
        images.values<float>().data(), labels.values<int32_t>().data());
    const Tower& tower = program.towers[static_cast<size_t>(i)];
    feeds.emplace_back(tower.images, std::move(images));
    feeds.emplace_back(tower.labels, std::move(labels));
  }
  return OkStatus();
}

Status Train(cluster::RemoteSession& session, const data::Split& split, const Program& program,
             int64_t steps) {
  LS_ASSIGN_OR_RETURN(data::Batcher batcher,
                      data::Batcher::Create(split, {.seed = 1, .global_batch = kBatch}));
  for (int64_t step = 0; step < steps; ++step) {
    const int64_t in_epoch = step % batcher.steps_per_epoch();
    if (in_epoch == 0) {
      batcher.StartEpoch(step / batcher.steps_per_epoch());
    }
    cluster::RemoteSession::FeedList feeds;
    LS_TRY(Feed(split, batcher.Indices(in_epoch, 0), program, feeds));
    LS_TRY(session.Run(feeds, {}, program.train).status());
    if (step == 0) {
      std::printf("first step done\n");
      std::fflush(stdout);
    }
  }
  return OkStatus();
}

Result<double> Accuracy(cluster::RemoteSession& session, const data::Split& split,
                        const Program& program) {
  int64_t right = 0;
  std::vector<uint32_t> samples(1);
  for (int64_t begin = 0; begin < split.size(); begin += 1000) {
    samples.clear();
    for (int64_t i = begin; i < std::min<int64_t>(begin + 1000, split.size()); ++i) {
      samples.push_back(static_cast<uint32_t>(i));
    }
    const auto count = static_cast<int64_t>(samples.size());
    LS_ASSIGN_OR_RETURN(Tensor images, Tensor::Allocate(DType::kFloat32, {count, kPixels}));
    std::vector<int32_t> labels(samples.size());
    split.Gather(samples, images.values<float>().data(), labels.data());
    LS_ASSIGN_OR_RETURN(
        const std::vector<Tensor> out,
        session.Run({{program.towers[0].images, images}}, {program.towers[0].prediction}));
    const std::vector<double> predicted = out[0].ToDoubles();
    for (size_t i = 0; i < labels.size(); ++i) {
      right += predicted[i] == labels[i] ? 1 : 0;
    }
  }
  return static_cast<double>(right) / static_cast<double>(split.size());
}

// The chief's program: builds the graph and runs it.
Status Lead(const cluster::Server& server, const Arguments& arguments) {
  LS_ASSIGN_OR_RETURN(const data::Dataset mnist, data::LoadMnist(arguments.data));
  const cluster::ClusterSpec& spec = server.def().cluster();
  LS_ASSIGN_OR_RETURN(const int workers, spec.num_tasks("worker"));
  Graph graph(op::Catalog());
  Builder b(graph);
  LS_ASSIGN_OR_RETURN(
      const Program program,
      Build(b, workers, spec.has_job("ps") ? "/job:ps/task:0" : "/job:worker/task:0"));
  LS_ASSIGN_OR_RETURN(const auto session, cluster::RemoteSession::Create(graph, server, {}));
  LS_TRY(session->Initialize());
  LS_TRY(Train(*session, mnist.train, program, arguments.steps));
  LS_ASSIGN_OR_RETURN(const double accuracy, Accuracy(*session, mnist.test, program));
  std::printf("test accuracy %.4f\n", accuracy);
  std::fflush(stdout);
  return OkStatus();
}

Result<cluster::ServerDef> Describe(const Arguments& arguments) {
  cluster::ClusterFlags flags;
  if (!arguments.addresses.empty()) {
    std::string list = arguments.addresses;
    std::replace(list.begin(), list.end(), ',', ';');
    flags.spec = "worker|" + list;
    flags.job = "worker";
    flags.task = arguments.task;
  }
  LS_ASSIGN_OR_RETURN(const cluster::Resolution here,
                      cluster::ResolveCluster(cluster::CollectVariables(environ), flags));
  if (!here.task || here.is_evaluator()) {
    return InvalidArgument("this process is no task of a cluster: give addresses and a task");
  }
  cluster::ServerDef::Options options;
  options.job = here.task->job;
  options.index = here.task->index;
  return cluster::ServerDef::Create(here.cluster, options);
}

Status Run(const Arguments& arguments) {
  LS_ASSIGN_OR_RETURN(cluster::ServerDef def, Describe(arguments));
  const bool chief = def.cluster().chief() == def.task();
  LS_ASSIGN_OR_RETURN(cluster::SecurityOptions security,
                      cluster::ReadSecurity({}, cluster::CollectVariables(environ)));
  LS_ASSIGN_OR_RETURN(const auto server,
                      cluster::Server::Create(std::move(def), {.security = std::move(security),
                                                               .heartbeat = kHeartbeat}));
  LS_TRY(server->Start(Deadline::After(milliseconds(60'000))));
  const Status status = chief ? Lead(*server, arguments) : server->Join(Deadline::Infinite());
  // After a failure the others are told why, and have time to leave.
  const Status stopped =
      server->Stop(Deadline::After(status.ok() ? milliseconds(30'000) : kHeartbeat * 2), status);
  return status.ok() ? stopped : status;
}

// The whole text is a number from 0 to `high`.
bool ParseNumber(std::string_view text, int64_t high, int64_t& number) {
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && rest == end && number >= 0 && number <= high;
}

bool Parse(std::span<char* const> words, Arguments& arguments) {
  if (words.size() == 3 || words.size() > 4 || (!words.empty() && words[0][0] == '-')) {
    return false;
  }
  if (!words.empty()) {
    arguments.data = words[0];
  }
  if (words.size() >= 2 && !ParseNumber(words[1], int64_t{1} << 40, arguments.steps)) {
    return false;
  }
  int64_t task = 0;
  if (words.size() == 4) {
    arguments.addresses = words[2];
    if (!ParseNumber(words[3], 65535, task)) {
      return false;
    }
  }
  arguments.task = static_cast<int>(task);
  return true;
}

// As those of the program `lockstep`.
int ExitCodeOf(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk:
      return 0;
    case StatusCode::kInvalidArgument:
    case StatusCode::kAlreadyExists:
    case StatusCode::kPermissionDenied:
    case StatusCode::kFailedPrecondition:
    case StatusCode::kUnauthenticated:
      return 2;
    case StatusCode::kUnavailable:
    case StatusCode::kDeadlineExceeded:
    case StatusCode::kAborted:
      return 3;
    case StatusCode::kNotFound:
    case StatusCode::kDataLoss:
      return 4;
    default:
      return 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  if (!Parse({argv + 1, static_cast<size_t>(std::max(argc - 1, 0))}, arguments)) {
    std::fprintf(stderr, "usage: %s [DATA_FOLDER [STEPS [HOST:PORT,HOST:PORT,... TASK]]]\n",
                 argv[0]);
    return 2;
  }
  net::grpc_link::SilenceGrpcLog();
  const Status status = Run(arguments);
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
  }
  return ExitCodeOf(status);
}
