#include "lockstep/strategy/local_replicas.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lockstep/base/counted.h"

namespace lockstep::strategy {

LocalReplicas::LocalReplicas(Token, const train::Program& program,
                             const LocalReplicasOptions& options)
    : program_(program),
      options_(options),
      store_(std::make_shared<exec::VariableStore>()),
      threads_(std::make_unique<WorkerThreads>(options.devices)),
      devices_(static_cast<size_t>(options.devices)) {}

Result<std::unique_ptr<LocalReplicas>> LocalReplicas::Create(const train::Program& program,
                                                             const LocalReplicasOptions& options) {
  if (options.replicas < 1 || options.devices < 1) {
    return InvalidArgument(fmt::format("{} replicas on {} devices: both must be 1 or more",
                                       options.replicas, options.devices));
  }
  if (options.group == nullptr && options.devices > options.replicas) {
    return InvalidArgument(fmt::format(
        "{} devices for {}: a device needs at least one, so set "
        "train.replicas (or --replicas) to {} or more",
        options.devices, Counted(options.replicas, "logical replica"), options.devices));
  }
  auto strategy = std::make_unique<LocalReplicas>(Token(), program, options);
  LS_TRY(strategy->Prepare());
  return strategy;
}

std::string_view LocalReplicas::name() const {
  if (!options_.name.empty()) {
    return options_.name;
  }
  return options_.devices == 1 ? "one_device" : "mirrored";
}

Status LocalReplicas::Prepare() {
  const train::TrainGraph& train = program_.train;
  exec::SessionOptions session_options;
  session_options.devices = options_.devices;
  session_options.threads_per_device = options_.threads_per_device;
  session_options.seed = options_.seed;
  LS_ASSIGN_OR_RETURN(session_, exec::Session::Create(*train.graph, session_options, store_));
  LS_ASSIGN_OR_RETURN(global_count_, Tensor::Zeros(DType::kFloat32, Shape{}));
  LS_ASSIGN_OR_RETURN(learning_rate_, Tensor::Zeros(DType::kFloat32, Shape{}));
  LS_ASSIGN_OR_RETURN(step_, Tensor::Zeros(DType::kFloat32, Shape{}));
  const std::vector<Value> batch = {train.features, train.labels, train.global_count};
  const std::vector<Value> scalars = {train.learning_rate, train.step};
  if (options_.replicas == 1 && options_.group == nullptr) {
    std::vector<Value> feeds = batch;
    feeds.insert(feeds.end(), scalars.begin(), scalars.end());
    LS_ASSIGN_OR_RETURN(fused_,
                        session_->Prepare({feeds, {train.loss, train.correct}, {train.train_op}}));
    fused_results_.resize(2);
    return OkStatus();
  }
  LS_ASSIGN_OR_RETURN(sums_,
                      BucketSums::Create(train.partials, {.bucket_bytes = options_.bucket_bytes,
                                                          .parts = options_.replicas,
                                                          .devices = options_.devices,
                                                          .group = options_.group,
                                                          .algorithm = options_.algorithm,
                                                          .timeout = options_.timeout,
                                                          .overlap = options_.overlap}));
  for (int device = 0; device < options_.devices; ++device) {
    LS_ASSIGN_OR_RETURN(devices_[static_cast<size_t>(device)].part,
                        session_->Prepare({batch, train.partials, {}}, device));
  }
  std::vector<Value> feeds = train.sums;
  feeds.insert(feeds.end(), scalars.begin(), scalars.end());
  LS_ASSIGN_OR_RETURN(apply_,
                      session_->Prepare({feeds, {train.loss, train.correct}, {train.train_op}}));
  apply_results_.resize(2);
  return OkStatus();
}

Status LocalReplicas::SetScalars(const train::StepRequest& request) {
  global_count_.values<float>()[0] =
      static_cast<float>(request.batcher.step_samples(request.batch_step));
  learning_rate_.values<float>()[0] = request.learning_rate;
  step_.values<float>()[0] = static_cast<float>(request.global_step + 1);
  return OkStatus();
}

Result<train::StepResult> LocalReplicas::RunFused(const train::StepRequest& request) {
  fused_feeds_.resize(5);
  LS_TRY(devices_[0].feeds.Load(request, 0, program_.train.features, fused_feeds_).status());
  fused_feeds_[2] = global_count_;
  fused_feeds_[3] = learning_rate_;
  fused_feeds_[4] = step_;
  const StepInfo info{options_.seed, request.global_step, 0};
  LS_TRY(fused_->Run(fused_feeds_, fused_results_, info, profile_));
  return train::StepResult{fused_results_[0].values<float>()[0],
                           std::lround(fused_results_[1].values<float>()[0]),
                           request.batcher.step_samples(request.batch_step)};
}

Status LocalReplicas::RunDevice(const train::StepRequest& request, int device) {
  DeviceState& state = devices_[static_cast<size_t>(device)];
  const data::BatchRange parts = sums_->parts_of(device);
  std::vector<Tensor> feeds(3);
  feeds[2] = global_count_;
  for (int64_t part = parts.begin; part < parts.begin + parts.count; ++part) {
    LS_TRY(
        state.feeds.Load(request, static_cast<int>(part), program_.train.features, feeds).status());
    LS_TRY(sums_->TakeLeaf(device, state.leaf));
    const StepInfo info{options_.seed, request.global_step, static_cast<int32_t>(part)};
    const auto on_fetched = [&](size_t index) { sums_->Complete(device, part, index, state.leaf); };
    LS_TRY(state.part->Run(feeds, state.leaf, info, /*profile=*/nullptr, on_fetched)
               .With(fmt::format("replica {}", part)));
  }
  return OkStatus();
}

Status LocalReplicas::RunDevices(const train::StepRequest& request) {
  LS_TRY(sums_->Begin());
  if (settled_) {
    LS_TRY(threads_->Run([&](int device) { return RunDevice(request, device); }));
  } else {
    // The first plans settle the layouts of the variables: in the order of the devices, and with
    // nobody else running.
    for (int device = 0; device < options_.devices; ++device) {
      LS_TRY(RunDevice(request, device));
    }
    settled_ = true;
  }
  return sums_->Finish();
}

Result<train::StepResult> LocalReplicas::RunParts(const train::StepRequest& request) {
  if (const Status status = RunDevices(request); !status.ok()) {
    sums_->Abort(status);
    return status;
  }
  apply_feeds_.assign(sums_->total().begin(), sums_->total().end());
  apply_feeds_.push_back(learning_rate_);
  apply_feeds_.push_back(step_);
  const StepInfo info{options_.seed, request.global_step, 0};
  LS_TRY(apply_->Run(apply_feeds_, apply_results_, info));
  apply_feeds_.clear();
  return train::StepResult{apply_results_[0].values<float>()[0],
                           std::lround(apply_results_[1].values<float>()[0]),
                           request.batcher.step_samples(request.batch_step)};
}

Result<train::StepResult> LocalReplicas::RunStep(const train::StepRequest& request) {
  LS_TRY(SetScalars(request));
  return fused_ != nullptr ? RunFused(request) : RunParts(request);
}

Result<std::string> LocalReplicas::DescribePlan(int64_t batch) {
  if (fused_ == nullptr) {
    return FailedPrecondition("the plan of a step with several replicas has several parts");
  }
  Shape shape = program_.train.features.shape();
  shape.set_dim(0, batch);
  std::vector<Tensor> feeds(2);
  LS_ASSIGN_OR_RETURN(feeds[0], Tensor::Zeros(DType::kFloat32, shape));
  LS_ASSIGN_OR_RETURN(feeds[1], Tensor::Zeros(DType::kInt32, Shape{batch}));
  feeds.insert(feeds.end(), {global_count_, learning_rate_, step_});
  LS_ASSIGN_OR_RETURN(const exec::Plan* plan, fused_->PlanFor(feeds));
  return fmt::format("{}arena {} bytes, scratch {} bytes, {} kernels, {} reorders\n",
                     plan->ToString(), plan->stats().arena_bytes, plan->stats().scratch_bytes,
                     plan->stats().kernels, plan->stats().reorders);
}

}  // namespace lockstep::strategy
