// Program: the graphs of a supervised classification job. The training graph computes the part of
// one replica (loss, gradients, statistics), marks with CrossReplicaSum what replicas add up, and
// updates from the sums; the evaluation graph shares its variables by name.
//
// A replica's loss is the sum over its samples divided by the number of samples of the whole step
// (`global_count`), so that the sum over replicas is the exact mean, whatever they hold.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/graph/graph.h"
#include "lockstep/model/zoo.h"
#include "lockstep/train/config.h"
#include "lockstep/train/optimizer.h"

namespace lockstep::train {

struct ProgramOptions {
  // Of one sample.
  Shape sample_shape;
  int64_t num_classes = 0;
  OptimizerConfig optimizer;
  ClipOptions clip;
  double label_smoothing = 0;
  // Computes in bfloat16; variables, statistics and updates stay float32.
  bool bf16 = false;
  // What gives the model's output, for an error about it: "model.layers[3] (dense) at m.toml:12:1".
  std::string output_place;
  // Where optimizer.decay_exclude stands, likewise.
  std::string decay_exclude_place;
};

struct TrainGraph {
  std::unique_ptr<Graph> graph;
  Value features;       // float32 [?, sample...]
  Value labels;         // int32 [?]
  Value global_count;   // float32 scalar: samples of the step over all replicas
  Value learning_rate;  // float32 scalar
  Value step;           // float32 scalar, counted from 1
  // What each replica computes, and the sums over replicas that updates and metrics start from:
  // pairs by index, in the order in which a replica has them.
  std::vector<Value> partials;
  std::vector<Value> sums;
  // Sums of the step: the mean loss, and the number of correctly classified samples.
  Value loss;
  Value correct;
  Node* train_op = nullptr;
};

struct EvalGraph {
  std::unique_ptr<Graph> graph;
  Value features;
  Value labels;
  Value probabilities;  // float32 [?, classes]
  Value loss_sum;       // float32 scalar
  Value correct;        // float32 scalar: number of samples whose best class is right
  Value in_top5;        // float32 scalar: right class among the best five
};

struct Program {
  TrainGraph train;
  EvalGraph eval;
  // Names in order: parameters and running statistics; optimizer slots.
  std::vector<std::string> model_variables;
  std::vector<std::string> slot_variables;
};

Result<Program> BuildProgram(const model::ModelFn& model, const ProgramOptions& options);

}  // namespace lockstep::train
