#include "lockstep/strategy/local_sgd.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace lockstep::strategy {
namespace {

// The variables of a program with these names, in their order.
std::vector<Value> VariablesNamed(const train::Program& program,
                                  const std::vector<std::string>& names) {
  std::vector<Value> values;
  for (const std::string& name : names) {
    for (const Value& variable : program.train.graph->Collection(collection::kVariables)) {
      if (variable.node->name == name) {
        values.push_back(variable);
      }
    }
  }
  return values;
}

std::vector<std::string> TrainableNames(const train::Program& program) {
  std::vector<std::string> names;
  for (const Value& variable : program.train.graph->Collection(collection::kTrainableVariables)) {
    names.push_back(variable.node->name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

Status CheckOptions(const LocalSgdOptions& options) {
  if (options.replicas < 1 || options.devices < 1 || options.merge_steps < 1) {
    return InvalidArgument(
        fmt::format("{} replicas on {} devices, merged every {} steps: all must be 1 or more",
                    options.replicas, options.devices, options.merge_steps));
  }
  const bool learns = std::isfinite(options.outer_learning_rate) && options.outer_learning_rate > 0;
  if (!learns || !(options.outer_momentum >= 0 && options.outer_momentum < 1)) {
    return InvalidArgument(fmt::format(
        "outer learning rate {} and momentum {}: the first must be greater than 0, the second from "
        "0 to less than 1",
        options.outer_learning_rate, options.outer_momentum));
  }
  return OkStatus();
}

}  // namespace

Result<std::unique_ptr<LocalSgd>> LocalSgd::Create(const train::Program& program,
                                                   const LocalSgdOptions& options) {
  LS_TRY(CheckOptions(options));
  auto strategy = std::make_unique<LocalSgd>(Token(), program, options);
  LS_TRY(strategy->Prepare());
  return strategy;
}

LocalSgd::LocalSgd(Token, const train::Program& program, const LocalSgdOptions& options)
    : program_(program),
      options_(options),
      merged_(std::make_shared<exec::VariableStore>()),
      threads_(std::make_unique<WorkerThreads>(options.devices)),
      devices_(static_cast<size_t>(options.devices)),
      trainable_(TrainableNames(program)) {}

Status LocalSgd::Prepare() {
  const train::TrainGraph& train = program_.train;
  exec::SessionOptions session_options;
  session_options.threads_per_device = options_.threads_per_device;
  session_options.seed = options_.seed;
  LS_ASSIGN_OR_RETURN(initializer_, exec::Session::Create(*train.graph, session_options, merged_));
  for (Device& device : devices_) {
    device.store = std::make_shared<exec::VariableStore>();
    LS_ASSIGN_OR_RETURN(device.session,
                        exec::Session::Create(*train.graph, session_options, device.store));
    LS_ASSIGN_OR_RETURN(device.step,
                        device.session->Prepare({{train.features, train.labels, train.global_count,
                                                  train.learning_rate, train.step},
                                                 {train.loss, train.correct},
                                                 {train.train_op}}));
    device.results.resize(2);
  }
  const BucketSumsOptions sums{.bucket_bytes = options_.bucket_bytes,
                               .parts = options_.replicas,
                               .devices = options_.devices,
                               .group = options_.group,
                               .algorithm = options_.algorithm,
                               .timeout = options_.timeout,
                               .overlap = options_.overlap};
  LS_ASSIGN_OR_RETURN(model_sums_,
                      BucketSums::Create(VariablesNamed(program_, program_.model_variables), sums));
  if (!program_.slot_variables.empty()) {
    LS_ASSIGN_OR_RETURN(
        slot_sums_, BucketSums::Create(VariablesNamed(program_, program_.slot_variables), sums));
  }
  const data::BatchRange mine = model_sums_->parts();
  first_replica_ = mine.begin;
  replicas_.resize(static_cast<size_t>(mine.count));
  return OkStatus();
}

void LocalSgd::Enter(const Device& device, const Replica& replica) {
  const std::vector<exec::Variable*> variables = device.store->All();
  for (size_t i = 0; i < variables.size(); ++i) {
    variables[i]->buffer = replica.variables[i];
  }
}

Result<int64_t> LocalSgd::LoadFeeds(const train::StepRequest& request, int part, Device& device,
                                    std::vector<Tensor>& feeds) const {
  LS_ASSIGN_OR_RETURN(const int64_t samples,
                      device.feeds.Load(request, part, program_.train.features, feeds));
  feeds.resize(2);
  // The mean over the replica's own samples.
  for (const float scalar : {static_cast<float>(samples), request.learning_rate,
                             static_cast<float>(request.global_step + 1)}) {
    LS_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Scalar<float>(scalar));
    feeds.push_back(std::move(tensor));
  }
  return samples;
}

Status LocalSgd::Begin(const train::StepRequest& request, int device) {
  Device& state = devices_[static_cast<size_t>(device)];
  const data::BatchRange parts = model_sums_->parts_of(device);
  if (parts.count == 0) {
    return OkStatus();
  }
  LS_TRY(state.session->Initialize());
  std::vector<Tensor> feeds;
  LS_TRY(LoadFeeds(request, static_cast<int>(parts.begin), state, feeds).status());
  // From here on the layouts stay.
  LS_TRY(state.step->PlanFor(feeds).status());
  for (const exec::Variable* variable : state.store->All()) {
    LS_ASSIGN_OR_RETURN(const Tensor value, merged_->Read(variable->name));
    LS_TRY(state.store->Write(variable->name, value));
  }
  for (int64_t part = parts.begin; part < parts.begin + parts.count; ++part) {
    Replica& replica = replicas_[static_cast<size_t>(part - first_replica_)];
    for (const exec::Variable* variable : state.store->All()) {
      LS_ASSIGN_OR_RETURN(std::shared_ptr<Buffer> buffer,
                          Buffer::Allocate(variable->buffer->size()));
      std::memcpy(buffer->data(), variable->buffer->data(), buffer->size());
      replica.variables.push_back(std::move(buffer));
    }
  }
  return OkStatus();
}

Status LocalSgd::RunDevice(const train::StepRequest& request, int device) {
  Device& state = devices_[static_cast<size_t>(device)];
  const data::BatchRange parts = model_sums_->parts_of(device);
  std::vector<Tensor> feeds;
  for (int64_t part = parts.begin; part < parts.begin + parts.count; ++part) {
    Replica& replica = replicas_[static_cast<size_t>(part - first_replica_)];
    LS_ASSIGN_OR_RETURN(const int64_t samples,
                        LoadFeeds(request, static_cast<int>(part), state, feeds));
    if (samples == 0) {
      continue;
    }
    Enter(state, replica);
    const StepInfo info{options_.seed, request.global_step, static_cast<int32_t>(part)};
    LS_TRY(state.step->Run(feeds, state.results, info).With(fmt::format("replica {}", part)));
    replica.samples += samples;
    replica.correct += std::lround(state.results[1].values<float>()[0]);
    replica.loss +=
        static_cast<double>(state.results[0].values<float>()[0]) * static_cast<double>(samples);
  }
  return OkStatus();
}

Result<train::StepResult> LocalSgd::RunStep(const train::StepRequest& request) {
  if (!begun_) {
    // Plans settle layouts: one device after another.
    for (int device = 0; device < options_.devices; ++device) {
      LS_TRY(Begin(request, device));
    }
    begun_ = true;
  }
  const Status status = threads_->Run([&](int device) { return RunDevice(request, device); });
  if (!status.ok()) {
    model_sums_->Abort(status);
    return status;
  }
  slots_merged_ = false;
  if ((request.global_step + 1) % options_.merge_steps != 0) {
    return train::StepResult{.loss = 0, .correct = 0, .samples = 0, .together = false};
  }
  return MergeModel();
}

Result<train::StepResult> LocalSgd::CountSamples() {
  constexpr size_t kNumbers = 3;
  const auto replicas = static_cast<size_t>(options_.replicas);
  std::vector<int64_t> numbers(replicas * kNumbers);
  for (size_t i = 0; i < replicas_.size(); ++i) {
    Replica& replica = replicas_[i];
    int64_t* const at = &numbers[(static_cast<size_t>(first_replica_) + i) * kNumbers];
    at[0] = std::exchange(replica.samples, 0);
    at[1] = std::exchange(replica.correct, 0);
    at[2] = std::bit_cast<int64_t>(std::exchange(replica.loss, 0));
  }
  if (options_.group != nullptr) {
    std::vector<int64_t> counts;
    for (int member = 0; member < options_.group->members(); ++member) {
      const collective::ReplicaNode range = options_.group->map().range(member);
      counts.push_back((range.end - range.begin) * static_cast<int64_t>(kNumbers));
    }
    LS_TRY(options_.workers->AllGather("local_sgd", numbers, counts));
  }
  train::StepResult all;
  double loss = 0;
  for (size_t r = 0; r < replicas; ++r) {
    all.samples += numbers[r * kNumbers];
    all.correct += numbers[r * kNumbers + 1];
    loss += std::bit_cast<double>(numbers[r * kNumbers + 2]);
  }
  const auto total = static_cast<double>(all.samples);
  all.loss = all.samples == 0 ? 0 : loss / total;
  // Without new samples the last weights stay: slots may still be to be merged by them.
  if (all.samples > 0) {
    weights_.resize(replicas);
    for (size_t r = 0; r < replicas; ++r) {
      weights_[r] = static_cast<float>(static_cast<double>(numbers[r * kNumbers]) / total);
    }
  }
  return all;
}

Status LocalSgd::Average(BucketSums& sums, const std::vector<std::string>& names) {
  LS_TRY(sums.Begin());
  std::vector<Tensor> leaf;
  for (int device = 0; device < options_.devices; ++device) {
    const Device& state = devices_[static_cast<size_t>(device)];
    const data::BatchRange parts = sums.parts_of(device);
    for (int64_t part = parts.begin; part < parts.begin + parts.count; ++part) {
      Enter(state, replicas_[static_cast<size_t>(part - first_replica_)]);
      LS_TRY(sums.TakeLeaf(device, leaf));
      const float weight = weights_[static_cast<size_t>(part)];
      for (size_t i = 0; i < names.size(); ++i) {
        LS_ASSIGN_OR_RETURN(const Tensor value, state.store->Read(names[i]));
        const std::span<const float> from = value.values<float>();
        std::transform(from.begin(), from.end(), leaf[i].values<float>().begin(),
                       [weight](float x) { return weight * x; });
        sums.Complete(device, part, i, leaf);
      }
    }
  }
  return sums.Finish();
}

Status LocalSgd::TakeOuterStep(const std::string& name, const Tensor& average) {
  const auto rate = static_cast<float>(options_.outer_learning_rate);
  const auto momentum = static_cast<float>(options_.outer_momentum);
  LS_ASSIGN_OR_RETURN(const Tensor merged, merged_->Read(name));
  Tensor& velocity = velocities_[name];
  if (!velocity.has_value()) {
    LS_ASSIGN_OR_RETURN(velocity, Tensor::Zeros(DType::kFloat32, average.shape()));
  }
  const std::span<float> x = merged.values<float>();
  const std::span<float> v = velocity.values<float>();
  const std::span<const float> a = average.values<float>();
  for (size_t i = 0; i < x.size(); ++i) {
    const float d = x[i] - a[i];
    v[i] = momentum * v[i] + d;
    x[i] -= rate * (options_.outer_nesterov ? d + momentum * v[i] : v[i]);
  }
  return merged_->Write(name, merged);
}

Result<train::StepResult> LocalSgd::MergeModel() {
  LS_ASSIGN_OR_RETURN(train::StepResult seen, CountSamples());
  if (seen.samples == 0) {
    return seen;
  }
  ++rounds_;
  const std::vector<std::string>& names = program_.model_variables;
  LS_TRY(Average(*model_sums_, names));
  const bool outer = options_.outer_learning_rate != 1 || options_.outer_momentum != 0;
  for (size_t i = 0; i < names.size(); ++i) {
    const Tensor& average = model_sums_->total()[i];
    const bool trained = std::binary_search(trainable_.begin(), trainable_.end(), names[i]);
    LS_TRY(outer && trained ? TakeOuterStep(names[i], average) : merged_->Write(names[i], average));
    LS_ASSIGN_OR_RETURN(const Tensor merged, merged_->Read(names[i]));
    for (int device = 0; device < options_.devices; ++device) {
      const data::BatchRange parts = model_sums_->parts_of(device);
      for (int64_t part = parts.begin; part < parts.begin + parts.count; ++part) {
        Enter(devices_[static_cast<size_t>(device)],
              replicas_[static_cast<size_t>(part - first_replica_)]);
        LS_TRY(devices_[static_cast<size_t>(device)].store->Write(names[i], merged));
      }
    }
  }
  return seen;
}

Status LocalSgd::MergeSlots() {
  if (slot_sums_ == nullptr) {
    return OkStatus();
  }
  LS_TRY(Average(*slot_sums_, program_.slot_variables));
  for (size_t i = 0; i < program_.slot_variables.size(); ++i) {
    LS_TRY(merged_->Write(program_.slot_variables[i], slot_sums_->total()[i]));
  }
  return OkStatus();
}

Result<train::StepResult> LocalSgd::Merge() {
  if (!begun_ || slots_merged_) {
    return train::StepResult();
  }
  LS_ASSIGN_OR_RETURN(const train::StepResult seen, MergeModel());
  // Weighted as the model was, the last time it was merged.
  LS_TRY(MergeSlots());
  slots_merged_ = true;
  return seen;
}

}  // namespace lockstep::strategy
