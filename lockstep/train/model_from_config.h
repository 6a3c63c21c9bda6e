// The network that a configuration names, or describes as a list of layers.
#pragma once

#include "lockstep/model/zoo.h"
#include "lockstep/train/config.h"

namespace lockstep::train {

// num_classes: what the data has; model.num_classes, where given, must agree with it or be larger.
Result<model::ModelFn> ModelFromConfig(const ModelConfig& config, int64_t num_classes);

}  // namespace lockstep::train
