// A small training whose result would show who computed what: convolution, batch norm, dropout, and
// last batches shorter than the number of replicas.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "lockstep/data/synthetic.h"
#include "lockstep/model/layers.h"
#include "lockstep/strategy/local_replicas.h"
#include "lockstep/train/state_hash.h"

namespace lockstep::strategy::testing {

inline Value SmallNetwork(const model::ModelContext& ctx, Value x) {
  x = model::Conv(ctx, "conv", x, {.filters = 8});
  x = model::Activate(ctx, model::BatchNormalization(ctx, "norm", x), model::Activation::kRelu);
  x = model::DropoutLayer(ctx, "dropout", x, 0.3);
  return model::Dense(ctx, "logits", x, {.units = 4});
}

// 21 samples [6, 5, 3] of 4 classes.
inline data::Dataset SmallData() {
  data::SyntheticOptions data;
  data.sample_shape = Shape{6, 5, 3};
  data.num_classes = 4;
  data.train_samples = 21;
  data.test_samples = 0;
  return data::MakeSynthetic(data).value();
}

inline train::Program SmallProgram() {
  train::ProgramOptions options;
  options.sample_shape = Shape{6, 5, 3};
  options.num_classes = 4;
  options.optimizer.name = "momentum";
  Result<train::Program> program = train::BuildProgram(SmallNetwork, options);
  EXPECT_TRUE(program.ok()) << program.status().ToString();
  return std::move(program).value();
}

// The hash of all state after two epochs of three batches; the error, if there was one.
inline std::string TwoEpochs(const train::Program& program, const data::Dataset& dataset,
                             const LocalReplicasOptions& options) {
  const auto train = [&]() -> Result<std::string> {
    LS_ASSIGN_OR_RETURN(const auto strategy, LocalReplicas::Create(program, options));
    LS_TRY(strategy->Initialize());
    LS_ASSIGN_OR_RETURN(data::Batcher batcher,
                        data::Batcher::Create(dataset.train, {.seed = options.seed,
                                                              .global_batch = 9,
                                                              .replicas = options.replicas}));
    int64_t step = 0;
    for (int64_t epoch = 0; epoch < 2; ++epoch) {
      batcher.StartEpoch(epoch);
      for (int64_t s = 0; s < batcher.steps_per_epoch(); ++s, ++step) {
        LS_ASSIGN_OR_RETURN(const train::StepResult result,
                            strategy->RunStep({batcher, s, step, 0.05F}));
        EXPECT_EQ(result.samples, s == 2 ? 3 : 9);
      }
    }
    return train::HashState(*strategy->shared_variables(), program.model_variables,
                            program.slot_variables, step);
  };
  const Result<std::string> hash = train();
  EXPECT_TRUE(hash.ok()) << hash.status().ToString();
  return hash.ok() ? *hash : hash.status().ToString();
}

}  // namespace lockstep::strategy::testing
