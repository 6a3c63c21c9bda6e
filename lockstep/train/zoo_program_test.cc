#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "lockstep/exec/session.h"
#include "lockstep/model/zoo.h"
#include "lockstep/train/program.h"

namespace lockstep::train {
namespace {

// Every model of the zoo takes a step, and evaluates with what it learnt.
class ZooProgramTest : public ::testing::TestWithParam<std::string> {};

TEST_P(ZooProgramTest, TrainsAndEvaluatesATinyBatch) {
  const auto models = model::Models();
  const auto info = std::find_if(models.begin(), models.end(),
                                 [](const auto& model) { return model.name == GetParam(); });
  // Small, but every stride and pooling has something to do.
  const Shape sample = info->input_shape[0] == 224
                           ? Shape{33, 40, 3}
                           : Shape(std::span<const int64_t>(info->input_shape));
  ProgramOptions options;
  options.sample_shape = sample;
  options.num_classes = 10;
  options.optimizer.name = "momentum";
  const Result<Program> built = BuildProgram(model::MakeModel(info->name, {}).value(), options);
  ASSERT_TRUE(built.ok()) << built.status().ToString();
  const Program& program = *built;
  const TrainGraph& train = program.train;
  Shape shape = train.features.shape();
  shape.set_dim(0, 2);
  const Tensor features = Tensor::Zeros(DType::kFloat32, shape).value();
  const std::span<float> values = features.values<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(static_cast<float>(i)) + 0.1F;
  }
  const Tensor labels = Tensor::From<int32_t>(Shape{2}, {3, 7}).value();
  const auto store = std::make_shared<exec::VariableStore>();
  const auto session = exec::Session::Create(*train.graph, {}, store).value();
  ASSERT_TRUE(session->Initialize().ok());
  const Tensor before = store->Read(program.model_variables[0]).value();
  const Result<std::vector<Tensor>> step =
      session->Run({{train.features, features},
                    {train.labels, labels},
                    {train.global_count, Tensor::Scalar(2.0F).value()},
                    {train.learning_rate, Tensor::Scalar(0.01F).value()},
                    {train.step, Tensor::Scalar(1.0F).value()}},
                   {train.loss}, {train.train_op});
  ASSERT_TRUE(step.ok()) << step.status().ToString();
  EXPECT_TRUE(std::isfinite((*step)[0].ToDoubles()[0]));
  EXPECT_GT((*step)[0].ToDoubles()[0], 0);
  EXPECT_NE(store->Read(program.model_variables[0]).value().ToDoubles(), before.ToDoubles());

  const EvalGraph& eval = program.eval;
  const auto eval_session = exec::Session::Create(*eval.graph, {}, store).value();
  const Result<std::vector<Tensor>> out = eval_session->Run(
      {{eval.features, features}, {eval.labels, labels}}, {eval.probabilities, eval.loss_sum});
  ASSERT_TRUE(out.ok()) << out.status().ToString();
  ASSERT_EQ((*out)[0].shape(), (Shape{2, 10}));
  const std::vector<double> shares = (*out)[0].ToDoubles();
  for (size_t row = 0; row < 2; ++row) {
    double sum = 0;
    for (size_t k = 0; k < 10; ++k) {
      sum += shares[10 * row + k];
    }
    EXPECT_NEAR(sum, 1, 1e-5);
  }
  // Deep networks are so sure of themselves before training that a share may round to zero.
  if (shares[3] > 1e-30 && shares[17] > 1e-30) {
    EXPECT_NEAR((*out)[1].ToDoubles()[0], -std::log(shares[3]) - std::log(shares[17]), 1e-3);
  } else {
    EXPECT_GT((*out)[1].ToDoubles()[0], 60.0);
  }
}

std::vector<std::string> ModelNames() {
  std::vector<std::string> names;
  for (const model::ModelInfo& info : model::Models()) {
    names.emplace_back(info.name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(Zoo, ZooProgramTest, ::testing::ValuesIn(ModelNames()),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace lockstep::train
