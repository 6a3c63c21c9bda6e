// The networks that come with Lockstep, by name. Each takes images or features and gives logits [N,
// classes].
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/model/layers.h"

namespace lockstep::model {

// Builds a network: features [?, ...] -> logits [?, classes]. Called once per graph.
using ModelFn = std::function<Value(const ModelContext& ctx, Value features)>;

struct ModelOptions {
  int64_t num_classes = 10;
  // Of the MLP.
  std::vector<int64_t> hidden = {128};
  // In front of the last dense layer, for the MLP and the MNIST CNN.
  double dropout = 0;
};

struct ModelInfo {
  std::string_view name;
  std::string_view summary;
  // Of one sample, as the network was made for; others work where the arithmetic allows.
  std::vector<int64_t> input_shape;
  ModelFn (*make)(const ModelOptions& options);
};

// Sorted by name.
std::span<const ModelInfo> Models();

// An unknown name is an error that suggests the nearest.
Result<ModelFn> MakeModel(std::string_view name, const ModelOptions& options);

}  // namespace lockstep::model
