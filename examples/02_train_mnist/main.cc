// Trains a small network on the MNIST digits with the C++ API only: a model written with layers,
// data from IDX files, two devices, evaluation and prediction.
//
//   example_02_train_mnist DATA_FOLDER [STEPS]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "lockstep/data/idx_folder.h"
#include "lockstep/model/layers.h"
#include "lockstep/strategy/local_replicas.h"
#include "lockstep/train/program.h"
#include "lockstep/train/trainer.h"

namespace {

using namespace lockstep;  // NOLINT(google-build-using-namespace)

Value Network(const model::ModelContext& ctx, Value images) {
  Value x = model::Conv(ctx, "conv", images,
                        {.filters = 8, .strides = {2, 2}, .activation = model::Activation::kRelu});
  x = model::Dense(ctx, "dense", x, {.units = 32, .activation = model::Activation::kRelu});
  return model::Dense(ctx, "logits", x, {.units = 10});
}

Status Run(const std::string& folder, int64_t steps) {
  LS_ASSIGN_OR_RETURN(const data::Dataset mnist, data::LoadMnist(folder));

  // The program: training and evaluation graphs of the model.
  train::ProgramOptions program_options;
  program_options.sample_shape = mnist.sample_shape;
  program_options.num_classes = mnist.num_classes;
  program_options.optimizer.name = "adam";
  program_options.optimizer.learning_rate = 0.002;
  LS_ASSIGN_OR_RETURN(const train::Program program, train::BuildProgram(Network, program_options));

  // Two logical replicas on two devices; on one device the result would have the same bits.
  LS_ASSIGN_OR_RETURN(
      const std::unique_ptr<strategy::LocalReplicas> replicas,
      strategy::LocalReplicas::Create(program, {.devices = 2, .replicas = 2, .seed = 1}));

  train::TrainerOptions options;
  options.global_batch = 64;
  options.parts = 2;
  options.steps = steps;
  options.seed = 1;
  options.optimizer = program_options.optimizer;
  const auto progress =
      observe::MakeLineProgress(std::cout, {.every_steps = 50}, observe::SteadyClock());
  train::Trainer trainer(program, *replicas, mnist, options, *progress);
  LS_TRY(trainer.Fit().status());

  LS_ASSIGN_OR_RETURN(const train::Metrics test, trainer.Evaluate(mnist.test));
  std::printf("test accuracy %.4f\n", test.accuracy);

  // The class of the first test image.
  LS_ASSIGN_OR_RETURN(const Tensor image, Tensor::Allocate(DType::kFloat32, Shape{1, 28, 28, 1}));
  int32_t label = 0;
  const uint32_t first = 0;
  mnist.test.Gather({&first, 1}, image.values<float>().data(), &label);
  LS_ASSIGN_OR_RETURN(const Tensor shares, trainer.Predict(image));
  const auto row = shares.values<float>();
  std::printf("first test image: label %d, predicted %d\n", label,
              static_cast<int>(std::max_element(row.begin(), row.end()) - row.begin()));
  return OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s DATA_FOLDER [STEPS]\n", argv[0]);
    return 2;
  }
  const Status status = Run(argv[1], argc > 2 ? std::atoll(argv[2]) : 250);
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return 1;
  }
  return 0;
}
