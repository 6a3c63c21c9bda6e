#include "lockstep/cli/predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/quote.h"
#include "lockstep/cli/checkpoints.h"
#include "lockstep/cli/outputs.h"
#include "lockstep/data/idx.h"

namespace lockstep::cli {
namespace {

// Whether `shape`, of N samples, is made of samples of the shape `sample`. A last dimension of one
// may be left out, and either may be flat.
bool HoldsSamples(const Shape& shape, const Shape& sample) {
  std::vector<int64_t> found(shape.dims().begin() + 1, shape.dims().end());
  std::vector<int64_t> wanted(sample.dims().begin(), sample.dims().end());
  int64_t elements = 1;
  for (const int64_t dim : found) {
    elements *= dim;
  }
  if (found.size() <= 1 || wanted.size() <= 1) {
    return elements == sample.num_elements();
  }
  for (std::vector<int64_t>* dims : {&found, &wanted}) {
    if (dims->back() == 1) {
      dims->pop_back();
    }
  }
  return found == wanted;
}

Status CheckFinite(const std::string& path, const Tensor& images) {
  if (!IsFloating(images.dtype())) {
    return OkStatus();
  }
  const std::vector<double> values = images.ToDoubles();
  const auto bad = std::find_if(values.begin(), values.end(),
                                [](double value) { return !std::isfinite(value); });
  if (bad == values.end()) {
    return OkStatus();
  }
  const int64_t per_sample = images.num_elements() / images.shape()[0];
  return InvalidArgument(fmt::format("{}: sample {} holds {}, expected finite numbers", Shown(path),
                                     (bad - values.begin()) / per_sample, *bad));
}

// Samples as they are stored, one or more of them.
Result<Tensor> LoadImages(const std::string& path, const Shape& sample) {
  LS_ASSIGN_OR_RETURN(Tensor images, data::ReadIdx(path));
  const Shape& shape = images.shape();
  if (shape.rank() < 1 || !HoldsSamples(shape, sample)) {
    return InvalidArgument(fmt::format("{}: holds {} {}, the model takes samples of the shape {}",
                                       Shown(path), DTypeName(images.dtype()), shape.ToString(),
                                       sample.ToString()));
  }
  if (shape[0] == 0) {
    return InvalidArgument(
        fmt::format("{}: holds no sample, its shape is {}", Shown(path), shape.ToString()));
  }
  LS_TRY(CheckFinite(path, images));
  return images;
}

// Samples `begin` and following, as float32 [count, ...sample] with bytes divided by 255.
Result<Tensor> FeaturesOf(const Tensor& images, int64_t begin, int64_t count, const Shape& sample) {
  Shape shape{count};
  for (const int64_t dim : sample.dims()) {
    shape.Append(dim);
  }
  LS_ASSIGN_OR_RETURN(Tensor features, Tensor::Allocate(DType::kFloat32, shape));
  const auto offset =
      static_cast<size_t>(begin * sample.num_elements()) * DTypeSize(images.dtype());
  ConvertElements(images.dtype(), static_cast<const std::byte*>(images.data()) + offset,
                  DType::kFloat32, features.data(), features.num_elements());
  if (images.dtype() == DType::kUInt8) {
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
    PrintOutput(
        fmt::format("{} {} {} {:.4f}\n", EscapeControls(path), first + row, best - begin, *best));
  }
}

Status PredictFile(const std::string& path, const Job& job, train::Trainer& trainer) {
  const Shape& sample = job.dataset.sample_shape;
  LS_ASSIGN_OR_RETURN(const Tensor images, LoadImages(path, sample));
  const int64_t samples = images.shape()[0];
  for (int64_t begin = 0; begin < samples; begin += job.config.train.eval_batch) {
    const int64_t count = std::min(job.config.train.eval_batch, samples - begin);
    LS_ASSIGN_OR_RETURN(const Tensor features, FeaturesOf(images, begin, count, sample));
    LS_ASSIGN_OR_RETURN(const Tensor probabilities, trainer.Predict(features));
    PrintRows(path, begin, probabilities);
  }
  return OkStatus();
}

}  // namespace

Outcome Predict(const PredictFlags& flags) {
  Job job;
  Outcome outcome = ReadJobConfig(flags.job, /*workers=*/1, job);
  if (outcome.status.ok()) {
    outcome = CheckCheckpointPath(flags.checkpoint);
  }
  for (const std::string& path : flags.inputs) {
    const Status status = internal::OpenRegular(path).status();
    if (outcome.status.ok() && !status.ok()) {
      outcome = Fail(CodeOfPath(status), status);
    }
  }
  if (outcome.status.ok()) {
    outcome = PrepareJob(DataNeed::kDescription, job);
  }
  if (outcome.status.ok()) {
    PrintDataWarnings(job);
    outcome = MakeStrategy({}, job);
  }
  if (!outcome.status.ok()) {
    return outcome;
  }
  if (Status status = LoadModel(flags.checkpoint, job); !status.ok()) {
    return Fail(ExitCode::kData, std::move(status));
  }
  const std::unique_ptr<observe::Progress> progress = observe::MakeQuietProgress();
  train::Trainer trainer(job.program, *job.strategy, job.dataset, job.TrainerOptionsOf(),
                         *progress);
  // All are checked before the first line is written. They are read twice and not kept, as together
  // they may be larger than the memory.
  for (const std::string& path : flags.inputs) {
    if (Status status = LoadImages(path, job.dataset.sample_shape).status(); !status.ok()) {
      return Fail(ExitCode::kData, std::move(status));
    }
  }
  for (const std::string& path : flags.inputs) {
    if (Status status = PredictFile(path, job, trainer); !status.ok()) {
      return Fail(ExitCode::kData, std::move(status));
    }
  }
  return Done();
}

}  // namespace lockstep::cli
