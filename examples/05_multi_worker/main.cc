// Training by several processes with the C++ API: each is a task of a cluster, starts a server,
// joins the group of all workers and trains; the first prints. Eight logical replicas are dealt out
// to however many workers there are, and the result is that of one process.
//
//   lockstep launch -n 4 -- example_05_multi_worker [DATA_FOLDER [STEPS]]
//
// The cluster is what TF_CONFIG, Slurm or MPI say; a process that is alone trains alone.
// Certificates and the job's secret are what LOCKSTEP_CA_FILE, _CERT_FILE, _KEY_FILE and
// _JOB_SECRET say.
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>

#include "lockstep/cluster/resolver/resolve.h"
#include "lockstep/cluster/security/security_flags.h"
#include "lockstep/cluster/server/server.h"
#include "lockstep/data/idx_folder.h"
#include "lockstep/model/zoo.h"
#include "lockstep/strategy/group_workers.h"
#include "lockstep/strategy/local_replicas.h"
#include "lockstep/train/program.h"
#include "lockstep/train/state_hash.h"
#include "lockstep/train/trainer.h"

namespace {

using namespace lockstep;  // NOLINT(google-build-using-namespace)
using std::chrono::seconds;

constexpr int kReplicas = 8;

// What a task of a cluster has; all null in a process that is alone.
struct Task {
  std::unique_ptr<cluster::Server> server;
  std::unique_ptr<collective::Group> group;
  std::unique_ptr<strategy::GroupWorkers> workers;
};

Status Join(Task& task) {
  const cluster::Variables variables = cluster::CollectVariables(environ);
  LS_ASSIGN_OR_RETURN(const cluster::Resolution here, cluster::ResolveCluster(variables, {}));
  if (!here.task) {
    return OkStatus();
  }
  LS_ASSIGN_OR_RETURN(
      cluster::ServerDef def,
      cluster::ServerDef::Create(here.cluster, {.job = here.task->job, .index = here.task->index}));
  LS_ASSIGN_OR_RETURN(cluster::SecurityOptions security, cluster::ReadSecurity({}, variables));
  LS_ASSIGN_OR_RETURN(task.server,
                      cluster::Server::Create(std::move(def), {.security = std::move(security)}));
  const Deadline deadline = Deadline::After(seconds(60));
  LS_TRY(task.server->Start(deadline));
  LS_TRY(task.server->LinkTasks(deadline));
  collective::GroupOptions options{.name = "workers", .replicas = kReplicas};
  options.tasks.resize(static_cast<size_t>(here.cluster.size()));
  std::iota(options.tasks.begin(), options.tasks.end(), 0);
  LS_ASSIGN_OR_RETURN(task.group,
                      collective::Group::Create(task.server->transport(), options, deadline));
  task.workers = std::make_unique<strategy::GroupWorkers>(*task.group, seconds(600));
  return OkStatus();
}

Status Train(const std::string& folder, int64_t steps, Task& task) {
  LS_ASSIGN_OR_RETURN(const data::Dataset mnist, data::LoadMnist(folder));
  LS_ASSIGN_OR_RETURN(const model::ModelFn model, model::MakeModel("mnist_cnn", {}));
  train::ProgramOptions program_options;
  program_options.sample_shape = mnist.sample_shape;
  program_options.num_classes = mnist.num_classes;
  program_options.optimizer.name = "adam";
  program_options.optimizer.learning_rate = 0.001;
  LS_ASSIGN_OR_RETURN(const train::Program program, train::BuildProgram(model, program_options));
  LS_ASSIGN_OR_RETURN(const auto replicas,
                      strategy::LocalReplicas::Create(
                          program, {.replicas = kReplicas, .seed = 1, .group = task.group.get()}));
  train::TrainerOptions options;
  options.global_batch = 64;
  options.parts = kReplicas;
  options.steps = steps;
  options.seed = 1;
  options.optimizer = program_options.optimizer;
  options.workers = task.workers.get();
  const bool prints = task.workers == nullptr || task.workers->self() == 0;
  const auto progress =
      prints ? observe::MakeLineProgress(std::cout, {.every_steps = 50}, observe::SteadyClock())
             : observe::MakeQuietProgress();
  train::Trainer trainer(program, *replicas, mnist, options, *progress);
  // All end with the same numbers, so only one needs to say them.
  LS_ASSIGN_OR_RETURN(const train::FitResult fit, trainer.Fit());
  LS_ASSIGN_OR_RETURN(const std::string hash,
                      train::HashVariables(*replicas->shared_variables(), program.model_variables));
  if (prints) {
    std::printf("test accuracy %.4f\nparams_sha256 %s\n", fit.test->accuracy, hash.c_str());
  }
  return OkStatus();
}

Status Run(const std::string& folder, int64_t steps) {
  Task task;
  Status status = Join(task);
  if (status.ok()) {
    status = Train(folder, steps, task);
  }
  if (task.server != nullptr) {
    // Why this task ends, so that the others do not wait for it.
    if (!status.ok() && task.group != nullptr) {
      task.group->Abort(status);
    }
    const Status left = task.server->Stop(Deadline::After(seconds(10)), status);
    status = status.ok() ? left : status;
  }
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "data/mnist";
  int64_t steps = 100;
  const std::string_view text = argc > 2 ? argv[2] : "100";
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), steps);
  if (argc > 3 || error != std::errc() || end != text.data() + text.size() || steps < 1) {
    std::fprintf(stderr, "usage: %s [DATA_FOLDER [STEPS]]\n", argv[0]);
    return 2;
  }
  const Status status = Run(folder, steps);
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
  }
  return status.ok() ? 0 : status.code() == StatusCode::kUnavailable ? 3 : 1;
}
