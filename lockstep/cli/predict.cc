#include "lockstep/cli/predict.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/cli/checkpoints.h"
#include "lockstep/data/idx.h"

namespace lockstep::cli {
namespace {

// Images [N, height, width] or [N, ...sample], as float32 [N, ...sample] with bytes divided by 255.
Result<Tensor> LoadFeatures(const std::string& path, const Shape& sample) {
  LS_ASSIGN_OR_RETURN(const Tensor raw, data::ReadIdx(path));
  const int64_t samples = raw.shape().rank() == 0 ? 0 : raw.shape()[0];
  int64_t sample_elements = 1;
  for (int axis = 1; axis < raw.shape().rank(); ++axis) {
    sample_elements *= raw.shape()[axis];
  }
  if (raw.shape().rank() < 2 || sample_elements != sample.num_elements()) {
    return InvalidArgument(fmt::format("{}: holds {} {}, the model takes samples of the shape {}",
                                       path, DTypeName(raw.dtype()), raw.shape().ToString(),
                                       sample.ToString()));
  }
  Shape shape{samples};
  for (const int64_t dim : sample.dims()) {
    shape.Append(dim);
  }
  LS_ASSIGN_OR_RETURN(Tensor features, Tensor::Allocate(DType::kFloat32, shape));
  ConvertElements(raw.dtype(), raw.data(), DType::kFloat32, features.data(), raw.num_elements());
  if (raw.dtype() == DType::kUInt8) {
    for (float& value : features.values<float>()) {
      value /= 255.0F;
    }
  }
  return features;
}

void PrintRows(const std::string& path, int64_t first, const Tensor& probabilities) {
  const int64_t classes = probabilities.shape()[1];
  const std::span<float> values = probabilities.values<float>();
  for (int64_t row = 0; row < probabilities.shape()[0]; ++row) {
    const auto begin = values.begin() + row * classes;
    const auto best = std::max_element(begin, begin + classes);
    fmt::print("{} {} {} {:.4f}\n", path, first + row, best - begin, *best);
  }
}

Status PredictFile(const std::string& path, const Job& job, train::Trainer& trainer) {
  LS_ASSIGN_OR_RETURN(const Tensor features, LoadFeatures(path, job.dataset.sample_shape));
  const int64_t samples = features.shape()[0];
  for (int64_t begin = 0; begin < samples; begin += job.config.train.eval_batch) {
    Shape shape = features.shape();
    shape.set_dim(0, std::min(job.config.train.eval_batch, samples - begin));
    LS_ASSIGN_OR_RETURN(const Tensor batch, Tensor::Allocate(DType::kFloat32, shape));
    const auto from = features.values<float>().subspan(
        static_cast<size_t>(begin * job.dataset.sample_shape.num_elements()));
    std::copy_n(from.begin(), batch.num_elements(), batch.values<float>().begin());
    LS_ASSIGN_OR_RETURN(const Tensor probabilities, trainer.Predict(batch));
    PrintRows(path, begin, probabilities);
  }
  return OkStatus();
}

}  // namespace

Outcome Predict(const PredictFlags& flags) {
  Job job;
  Outcome outcome = PrepareJob(flags.job, job);
  if (!outcome.status.ok()) {
    return outcome;
  }
  if (Status status = LoadJob(flags.checkpoint, false, job, nullptr); !status.ok()) {
    return Fail(ExitCode::kData, std::move(status));
  }
  const std::unique_ptr<observe::Progress> progress = observe::MakeQuietProgress();
  train::Trainer trainer(job.program, *job.strategy, job.dataset, job.TrainerOptionsOf(),
                         *progress);
  for (const std::string& path : flags.inputs) {
    if (Status status = PredictFile(path, job, trainer); !status.ok()) {
      return Fail(ExitCode::kData, std::move(status));
    }
  }
  return Done();
}

}  // namespace lockstep::cli
