#include "lockstep/strategy/bucket_sums.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

namespace lockstep::strategy {
namespace {

BucketSumsOptions WithoutIdleOverlap(BucketSumsOptions options, const GradientLayout& layout) {
  // The only bucket is complete when everything else is done.
  options.overlap = options.overlap && layout.buckets().size() > 1;
  return options;
}

}  // namespace

Result<std::unique_ptr<BucketSums>> BucketSums::Create(const std::vector<Value>& partials,
                                                       const BucketSumsOptions& options) {
  if (options.group != nullptr && options.group->map().replicas() != options.parts) {
    return InvalidArgument(fmt::format("a step of {} parts over the group '{}' of {} replicas",
                                       options.parts, options.group->name(),
                                       options.group->map().replicas()));
  }
  LS_ASSIGN_OR_RETURN(GradientLayout layout,
                      GradientLayout::Create(partials, options.bucket_bytes));
  return std::make_unique<BucketSums>(Token(), std::move(layout), options);
}

BucketSums::BucketSums(Token, GradientLayout layout, const BucketSumsOptions& options)
    : layout_(std::move(layout)),
      options_(WithoutIdleOverlap(options, layout_)),
      device_buckets_(layout_.buckets().size() * static_cast<size_t>(options.devices)),
      total_(layout_.slots().size()),
      working_(layout_.buckets().size()) {
  for (size_t bucket = 0; bucket < layout_.buckets().size(); ++bucket) {
    bucket_of_.insert(bucket_of_.end(), layout_.buckets()[bucket].slots, bucket);
  }
}

BucketSums::~BucketSums() {
  if (!works_.empty()) {
    Abort(Cancelled("the strategy was ended in the middle of a step"));
    (void)WaitForWorks();
  }
}

data::BatchRange BucketSums::parts() const {
  if (options_.group == nullptr) {
    return {0, options_.parts};
  }
  const collective::ReplicaNode range = options_.group->map().range(options_.group->self());
  return {range.begin, range.end - range.begin};
}

data::BatchRange BucketSums::parts_of(int device) const {
  return data::ReplicaRange(parts(), device, options_.devices);
}

Result<BucketSums::Block> BucketSums::AllocateBlock() const {
  const auto bytes = static_cast<size_t>(layout_.elements()) * sizeof(float);
  Block block;
  if (options_.group != nullptr) {
    LS_ASSIGN_OR_RETURN(const std::shared_ptr<net::Region> region, options_.group->Allocate(bytes));
    block = {static_cast<float*>(region->data()), region};
  } else {
    LS_ASSIGN_OR_RETURN(const std::shared_ptr<Buffer> buffer, Buffer::Allocate(bytes));
    block = {static_cast<float*>(buffer->data()), buffer};
    // What lies between the tensors is added up with them.
    std::memset(buffer->data(), 0, bytes);
  }
  return block;
}

Status BucketSums::AddSpare(int device) {
  LS_ASSIGN_OR_RETURN(const Block block, AllocateBlock());
  for (size_t b = 0; b < layout_.buckets().size(); ++b) {
    const GradientLayout::Bucket& bucket = layout_.buckets()[b];
    std::vector<Tensor> tensors;
    for (size_t i = bucket.first_slot; i < bucket.first_slot + bucket.slots; ++i) {
      const GradientLayout::Slot& slot = layout_.slots()[i];
      // A buffer of its own: a plan writes to a tensor in place only where nobody shares it.
      const auto buffer = Buffer::Wrap(
          block.data + slot.begin, static_cast<size_t>(slot.count) * sizeof(float), block.owner);
      LS_ASSIGN_OR_RETURN(Tensor tensor, Tensor::View(DType::kFloat32, slot.shape, buffer, 0));
      tensors.push_back(std::move(tensor));
    }
    At(device, b).sum.GiveBack(std::move(tensors));
  }
  return OkStatus();
}

Status BucketSums::TakeLeaf(int device, std::vector<Tensor>& leaf) {
  leaf.clear();
  for (size_t bucket = 0; bucket < layout_.buckets().size(); ++bucket) {
    std::vector<Tensor> tensors = At(device, bucket).sum.TakeSpare();
    if (tensors.empty()) {
      LS_TRY(AddSpare(device));
      tensors = At(device, bucket).sum.TakeSpare();
    }
    std::move(tensors.begin(), tensors.end(), std::back_inserter(leaf));
  }
  return OkStatus();
}

void BucketSums::Complete(int device, int64_t part, size_t index, std::vector<Tensor>& leaf) {
  const size_t b = bucket_of_[index];
  const GradientLayout::Bucket& bucket = layout_.buckets()[b];
  DeviceBucket& mine = At(device, b);
  if (++mine.complete < bucket.slots) {
    return;
  }
  mine.complete = 0;
  const auto first = leaf.begin() + static_cast<std::ptrdiff_t>(bucket.first_slot);
  const auto end = first + static_cast<std::ptrdiff_t>(bucket.slots);
  mine.sum.Add({part, 1, {std::move_iterator(first), std::move_iterator(end)}});
  const data::BatchRange parts = parts_of(device);
  if (part + 1 < parts.begin + parts.count) {
    return;
  }
  {
    const MutexLock lock(mu_);
    if (--working_[b].devices > 0) {
      return;
    }
  }
  Join(b);
  const MutexLock lock(mu_);
  working_[b].joined = true;
  ReduceJoined();
}

void BucketSums::Join(size_t bucket) {
  collective::TreeSum& total = At(0, bucket).sum;
  for (int device = 1; device < options_.devices; ++device) {
    DeviceBucket& other = At(device, bucket);
    for (collective::TreeNode& node : other.sum.nodes()) {
      total.Add(std::move(node));
      ++other.lent;
    }
    other.sum.Clear();
  }
  if (options_.group != nullptr) {
    const std::vector<collective::ReplicaNode> nodes =
        options_.group->map().nodes(options_.group->self());
    total.JoinFrom(nodes.back().begin);
  }
}

void BucketSums::ReduceJoined() {
  while (options_.group != nullptr && options_.overlap && next_ < working_.size() &&
         working_[next_].joined) {
    collective::Call call = MakeCall(next_);
    works_.push_back(
        options_.group->Start(std::move(call), options_.group->After(options_.timeout)));
    ++next_;
  }
}

collective::Call BucketSums::MakeCall(size_t b) {
  const GradientLayout::Bucket& bucket = layout_.buckets()[b];
  collective::TreeSum& sum = At(0, b).sum;
  std::vector<std::vector<Tensor>> nodes = sum.TakeNodes();
  std::vector<const void*> inputs;
  for (const std::vector<Tensor>& node : nodes) {
    inputs.push_back(node[0].data());
  }
  if (nodes.empty()) {
    nodes.push_back(sum.TakeSpare());
  }
  std::move(nodes[0].begin(), nodes[0].end(),
            total_.begin() + static_cast<std::ptrdiff_t>(bucket.first_slot));
  // Nobody takes them before the next step.
  for (size_t i = 1; i < nodes.size(); ++i) {
    sum.GiveBack(std::move(nodes[i]));
  }
  return collective::AllReduceCall({.name = fmt::format("gradients/{}", b),
                                    .dtype = DType::kFloat32,
                                    .shape = Shape{bucket.count},
                                    .algorithm = options_.algorithm},
                                   std::move(inputs), total_[bucket.first_slot].data());
}

Status BucketSums::Begin() {
  const auto with_parts = [this] {
    int devices = 0;
    for (int device = 0; device < options_.devices; ++device) {
      devices += parts_of(device).count > 0 ? 1 : 0;
    }
    return devices;
  }();
  for (size_t b = 0; b < layout_.buckets().size(); ++b) {
    const GradientLayout::Bucket& bucket = layout_.buckets()[b];
    collective::TreeSum& total = At(0, b).sum;
    if (total_[bucket.first_slot].has_value()) {
      const auto first = total_.begin() + static_cast<std::ptrdiff_t>(bucket.first_slot);
      const auto end = first + static_cast<std::ptrdiff_t>(bucket.slots);
      total.GiveBack({std::move_iterator(first), std::move_iterator(end)});
    }
    for (int device = 0; device < options_.devices; ++device) {
      DeviceBucket& state = At(device, b);
      state.sum.Clear();
      state.complete = 0;
      // Every device gets back as many buffers as it gave.
      for (; state.lent > 0; --state.lent) {
        state.sum.GiveBack(total.TakeSpare());
      }
    }
  }
  if (options_.group != nullptr && with_parts == 0 && !has_receiver_) {
    LS_TRY(AddSpare(0));
    has_receiver_ = true;
  }
  const MutexLock lock(mu_);
  next_ = 0;
  working_.assign(layout_.buckets().size(), {.devices = with_parts, .joined = with_parts == 0});
  ReduceJoined();
  return OkStatus();
}

Status BucketSums::WaitForWorks() {
  Status status;
  for (const collective::Work& work : works_) {
    Status ended = work.Wait();
    status = status.ok() ? std::move(ended) : status;
  }
  works_.clear();
  return status;
}

Status BucketSums::Finish() {
  if (options_.group != nullptr) {
    LS_TRY(WaitForWorks());
    const MutexLock lock(mu_);
    for (; next_ < working_.size(); ++next_) {
      LS_CHECK(working_[next_].joined);
      LS_TRY(options_.group->Run(MakeCall(next_), options_.group->After(options_.timeout)));
    }
    return OkStatus();
  }
  for (size_t b = 0; b < layout_.buckets().size(); ++b) {
    std::vector<Tensor> sums = At(0, b).sum.Finish();
    std::move(sums.begin(), sums.end(),
              total_.begin() + static_cast<std::ptrdiff_t>(layout_.buckets()[b].first_slot));
  }
  return OkStatus();
}

void BucketSums::Abort(const Status& why) {
  if (options_.group != nullptr) {
    options_.group->Abort(why);
  }
}

}  // namespace lockstep::strategy
