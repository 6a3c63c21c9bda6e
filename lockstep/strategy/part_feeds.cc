#include "lockstep/strategy/part_feeds.h"

#include <algorithm>

namespace lockstep::strategy {

Result<int64_t> PartFeeds::Load(const train::StepRequest& request, int part, const Value& features,
                                std::vector<Tensor>& feeds) {
  const Shape& open_shape = features.shape();
  int64_t sample_elements = 1;
  for (int axis = 1; axis < open_shape.rank(); ++axis) {
    sample_elements *= open_shape[axis];
  }
  const int64_t capacity = request.batcher.max_replica_samples();
  if (capacity > capacity_ || features_ == nullptr) {
    LS_ASSIGN_OR_RETURN(
        features_,
        Buffer::Allocate(static_cast<size_t>(capacity * sample_elements) * sizeof(float)));
    LS_ASSIGN_OR_RETURN(labels_, Buffer::Allocate(static_cast<size_t>(capacity) * sizeof(int32_t)));
    capacity_ = capacity;
  }
  const std::span<float> feature_room(static_cast<float*>(features_->data()),
                                      static_cast<size_t>(capacity_ * sample_elements));
  const std::span<int32_t> label_room(static_cast<int32_t*>(labels_->data()),
                                      static_cast<size_t>(capacity_));
  LS_ASSIGN_OR_RETURN(const int64_t samples,
                      request.batcher.Fill(request.batch_step, part, feature_room, label_room));
  Shape shape = open_shape;
  shape.set_dim(0, samples);
  feeds.resize(std::max<size_t>(feeds.size(), 2));
  LS_ASSIGN_OR_RETURN(feeds[0], Tensor::View(DType::kFloat32, shape, features_, 0));
  LS_ASSIGN_OR_RETURN(feeds[1], Tensor::View(DType::kInt32, Shape{samples}, labels_, 0));
  return samples;
}

}  // namespace lockstep::strategy
