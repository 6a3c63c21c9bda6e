// Mirrored training with the C++ API: eight logical replicas of a step on one, two and three
// devices of this process. The devices change the time that a step takes, not a bit of its result.
//
//   example_04_mirrored [DATA_FOLDER [STEPS]]
#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>

#include "lockstep/data/idx_folder.h"
#include "lockstep/model/layers.h"
#include "lockstep/strategy/local_replicas.h"
#include "lockstep/train/program.h"
#include "lockstep/train/state_hash.h"
#include "lockstep/train/trainer.h"

namespace {

using namespace lockstep;  // NOLINT(google-build-using-namespace)

constexpr int kReplicas = 8;

// Batch norm uses the statistics of each replica; dropout is a function of seed, step and replica.
Value Network(const model::ModelContext& ctx, Value images) {
  Value x = model::Conv(ctx, "conv", images, {.filters = 8, .strides = {2, 2}});
  x = model::Activate(ctx, model::BatchNormalization(ctx, "norm", x), model::Activation::kRelu);
  x = model::Dense(ctx, "dense", x, {.units = 32, .activation = model::Activation::kRelu});
  return model::Dense(ctx, "logits", model::DropoutLayer(ctx, "dropout", x, 0.2), {.units = 10});
}

// Trains and returns the hash of all model variables.
Result<std::string> Train(const train::Program& program, const data::Dataset& mnist, int devices,
                          const train::TrainerOptions& options) {
  LS_ASSIGN_OR_RETURN(
      const auto replicas,
      strategy::LocalReplicas::Create(
          program, {.devices = devices, .replicas = kReplicas, .seed = options.seed}));
  const auto progress = observe::MakeQuietProgress();
  train::Trainer trainer(program, *replicas, mnist, options, *progress);
  LS_ASSIGN_OR_RETURN(const train::FitResult fit, trainer.Fit());
  LS_ASSIGN_OR_RETURN(std::string hash,
                      train::HashVariables(*replicas->shared_variables(), program.model_variables));
  std::printf("%d device%s: %.1f s, test accuracy %.4f, params_sha256 %s\n", devices,
              devices == 1 ? "" : "s", fit.train_seconds, fit.test->accuracy, hash.c_str());
  return hash;
}

Status Run(const std::string& folder, int64_t steps) {
  LS_ASSIGN_OR_RETURN(const data::Dataset mnist, data::LoadMnist(folder));
  train::ProgramOptions program_options;
  program_options.sample_shape = mnist.sample_shape;
  program_options.num_classes = mnist.num_classes;
  program_options.optimizer.name = "adam";
  program_options.optimizer.learning_rate = 0.002;
  LS_ASSIGN_OR_RETURN(const train::Program program, train::BuildProgram(Network, program_options));
  train::TrainerOptions options;
  options.global_batch = 64;
  options.parts = kReplicas;
  options.steps = steps;
  options.seed = 1;
  options.optimizer = program_options.optimizer;
  LS_ASSIGN_OR_RETURN(const std::string expected, Train(program, mnist, 1, options));
  for (const int devices : {2, 3}) {
    LS_ASSIGN_OR_RETURN(const std::string hash, Train(program, mnist, devices, options));
    if (hash != expected) {
      return Internal("the number of devices has changed the result");
    }
  }
  std::printf("the same bits\n");
  return OkStatus();
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
    return 1;
  }
  return 0;
}
