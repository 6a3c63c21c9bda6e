#include "lockstep/train/program.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/op/arg_max.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/cast.h"
#include "lockstep/op/catalog.h"
#include "lockstep/op/compare.h"
#include "lockstep/op/group.h"
#include "lockstep/op/identity.h"
#include "lockstep/op/placeholder.h"
#include "lockstep/op/reduce.h"
#include "lockstep/op/size.h"
#include "lockstep/op/softmax.h"
#include "lockstep/op/sparse_softmax_cross_entropy.h"
#include "lockstep/pass/gradients.h"

namespace lockstep::train {
namespace {

Shape Batched(const Shape& sample) {
  Shape shape{Shape::kUnknownDim};
  for (const int64_t dim : sample.dims()) {
    shape.Append(dim);
  }
  return shape;
}

Status CheckLogits(const Builder& b, Value logits, int64_t num_classes) {
  LS_TRY(b.status());
  if (!logits.valid() || logits.shape().rank() != 2 || logits.shape()[1] != num_classes ||
      logits.dtype() != DType::kFloat32) {
    return InvalidArgument(
        fmt::format("the model's output is {}, expected float32 [?, {}]: one number per class",
                    logits.valid() ? logits.type().ToString() : "nothing", num_classes));
  }
  return OkStatus();
}

// The model's output in float32, checked.
Result<Value> Logits(Builder& b, const model::ModelFn& model, const ProgramOptions& options,
                     model::ModelContext ctx, Value features) {
  ctx.compute = options.bf16 ? DType::kBFloat16 : DType::kFloat32;
  Value logits = model(ctx, features);
  if (logits.valid() && logits.dtype() == DType::kBFloat16) {
    logits = op::Cast(b, logits, DType::kFloat32);
  }
  if (Status status = CheckLogits(b, logits, options.num_classes); !status.ok()) {
    // An error of a layer has a place already.
    const bool place = b.status().ok() && !options.output_place.empty();
    return place ? status.With(options.output_place) : status;
  }
  return logits;
}

// How many samples have their right class on top.
Value CountCorrect(Builder& b, Value logits, Value labels) {
  const Value best = op::Cast(b, op::ArgMax(b, logits, 1), DType::kInt32);
  return op::ReduceSum(b, op::Cast(b, op::Equal(b, best, labels), DType::kFloat32));
}

// Every CrossReplicaSum of a graph, in order of creation.
void CollectSums(TrainGraph& train) {
  for (const auto& node : train.graph->nodes()) {
    if (node->op->name == "CrossReplicaSum") {
      train.partials.push_back(node->inputs[0]);
      train.sums.push_back(node->output());
    }
  }
}

std::vector<std::string> VariableNames(const Graph& graph,
                                       std::string_view kind = collection::kVariables) {
  std::vector<std::string> names;
  for (const Value& variable : graph.Collection(kind)) {
    names.push_back(variable.node->name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::vector<GradientAndVariable>> SummedGradients(Builder& b, const Graph& graph,
                                                         Value loss) {
  const auto variables = graph.Collection(collection::kTrainableVariables);
  const std::vector<Value> trainable(variables.begin(), variables.end());
  const Value losses[] = {loss};
  LS_ASSIGN_OR_RETURN(const std::vector<Gradient> gradients, pass::Gradients(b, losses, trainable));
  std::vector<GradientAndVariable> pairs;
  // From the last layer to the first, as they come to be.
  for (size_t i = trainable.size(); i-- > 0;) {
    const Value dense = pass::DenseGradient(b, gradients[i], trainable[i]);
    if (dense.valid()) {
      pairs.push_back({{op::CrossReplicaSum(b, dense), {}, {}}, trainable[i]});
    }
  }
  // Those that add up over variables (norms) do so in the order of the model.
  std::reverse(pairs.begin(), pairs.end());
  return pairs;
}

Status BuildTrainGraph(const model::ModelFn& model, const ProgramOptions& options,
                       Program& program) {
  TrainGraph& train = program.train;
  train.graph = std::make_unique<Graph>(op::Catalog());
  Builder b(*train.graph);
  train.features = op::Placeholder(b, DType::kFloat32, Batched(options.sample_shape), "features");
  train.labels = op::Placeholder(b, DType::kInt32, Shape{Shape::kUnknownDim}, "labels");
  train.global_count = op::Placeholder(b, DType::kFloat32, Shape{}, "global_count");
  train.learning_rate = op::Placeholder(b, DType::kFloat32, Shape{}, "learning_rate");
  train.step = op::Placeholder(b, DType::kFloat32, Shape{}, "step");
  const Value weight = op::Div(b, op::Size(b, train.labels), train.global_count);
  LS_ASSIGN_OR_RETURN(
      const Value logits,
      Logits(b, model, options, {.builder = b, .training = true, .replica_weight = weight},
             train.features));
  program.model_variables = VariableNames(*train.graph);
  const Status excluded = CheckDecayExclude(
      options.optimizer, VariableNames(*train.graph, collection::kTrainableVariables));
  if (!excluded.ok()) {
    return options.decay_exclude_place.empty() ? excluded
                                               : excluded.With(options.decay_exclude_place);
  }
  const op::CrossEntropy cross_entropy =
      op::SparseSoftmaxCrossEntropyWithLogits(b, logits, train.labels, options.label_smoothing);
  const Value loss = op::Div(b, op::ReduceSum(b, cross_entropy.loss), train.global_count);
  train.loss = op::CrossReplicaSum(b, loss);
  train.correct = op::CrossReplicaSum(b, CountCorrect(b, logits, train.labels));
  LS_TRY(b.status());
  LS_ASSIGN_OR_RETURN(std::vector<GradientAndVariable> gradients,
                      SummedGradients(b, *train.graph, loss));
  gradients = ClipGradients(b, std::move(gradients), options.clip);
  Node* apply = ApplyGradients(b, options.optimizer, gradients, train.learning_rate, train.step);
  LS_TRY(b.status());
  std::vector<Node*> updates = {apply};
  for (const Value& update : train.graph->Collection(collection::kUpdateOps)) {
    updates.push_back(update.node);
  }
  train.train_op = op::Group(b, updates, "train_step");
  LS_TRY(b.status());
  CollectSums(train);
  const std::vector<std::string> all = VariableNames(*train.graph);
  std::set_difference(all.begin(), all.end(), program.model_variables.begin(),
                      program.model_variables.end(), std::back_inserter(program.slot_variables));
  return OkStatus();
}

Status BuildEvalGraph(const model::ModelFn& model, const ProgramOptions& options, EvalGraph& eval) {
  eval.graph = std::make_unique<Graph>(op::Catalog());
  Builder b(*eval.graph);
  eval.features = op::Placeholder(b, DType::kFloat32, Batched(options.sample_shape), "features");
  eval.labels = op::Placeholder(b, DType::kInt32, Shape{Shape::kUnknownDim}, "labels");
  LS_ASSIGN_OR_RETURN(const Value logits, Logits(b, model, options, {.builder = b}, eval.features));
  eval.probabilities = op::Softmax(b, logits);
  eval.loss_sum =
      op::ReduceSum(b, op::SparseSoftmaxCrossEntropyWithLogits(b, logits, eval.labels).loss);
  eval.correct = CountCorrect(b, logits, eval.labels);
  eval.in_top5 = op::ReduceSum(
      b, op::Cast(b, op::InTopK(b, logits, eval.labels, std::min<int64_t>(5, options.num_classes)),
                  DType::kFloat32));
  return b.status();
}

// A model that names its variables differently in evaluation would be evaluated untrained.
Status CheckSharedVariables(const Program& program) {
  for (const std::string& name : VariableNames(*program.eval.graph)) {
    if (!std::binary_search(program.model_variables.begin(), program.model_variables.end(), name)) {
      return InvalidArgument(fmt::format(
          "in evaluation the model has the variable '{}', which it does not have in training",
          name));
    }
  }
  return OkStatus();
}

}  // namespace

Result<Program> BuildProgram(const model::ModelFn& model, const ProgramOptions& options) {
  if (options.num_classes < 2) {
    return InvalidArgument(
        fmt::format("a classifier needs 2 classes or more, found {}", options.num_classes));
  }
  Program program;
  LS_TRY(BuildTrainGraph(model, options, program));
  LS_TRY(BuildEvalGraph(model, options, program.eval));
  LS_TRY(CheckSharedVariables(program));
  return program;
}

}  // namespace lockstep::train
