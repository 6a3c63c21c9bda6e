// Layers: the usual building blocks of networks, made of ops and variables. Images are NHWC. Each
// layer opens a name scope, so that its variables are called "scope/filter", "scope/bias" and so
// on; building a network twice (for training and for evaluation) in graphs of their own gives the
// same names, which is how they share variables. Errors name the line that called the layer.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "lockstep/graph/builder.h"

namespace lockstep::model {

// What a network has to know besides its input. Passed to every layer.
struct ModelContext {
  Builder& builder;
  // Dropout drops, and batch norm uses and collects statistics of the batch.
  bool training = false;
  // Scalar float32: the share of the global batch that this replica holds, by which its statistics
  // count. Invalid: 1.
  Value replica_weight = {};
  // What dense layers and convolutions compute in; variables and statistics are float32 always.
  DType compute = DType::kFloat32;
};

enum class Activation { kNone, kRelu, kLeakyRelu, kElu, kGelu, kSilu, kSigmoid, kTanh, kSoftplus };

// "none", "relu", "leaky_relu"...
Result<Activation> ParseActivation(std::string_view name);
Value Activate(const ModelContext& ctx, Value x, Activation activation,
               SourceLocation where = SourceLocation::Current());

struct DenseOptions {
  int64_t units = 0;
  Activation activation = Activation::kNone;
  bool bias = true;
};

// x [N, ...] is flattened to [N, K]; kernel [K, units] (Glorot uniform), bias [units] (zeros).
// Returns [N, units].
Value Dense(const ModelContext& ctx, std::string_view name, Value x, const DenseOptions& options,
            SourceLocation where = SourceLocation::Current());

struct ConvOptions {
  int64_t filters = 0;
  std::vector<int64_t> kernel = {3, 3};
  std::vector<int64_t> strides = {1, 1};
  // "SAME", "VALID", or "EXPLICIT" with `paddings` {top, bottom, left, right}.
  std::string_view padding = "SAME";
  std::vector<int64_t> paddings = {};
  std::vector<int64_t> dilations = {1, 1};
  int64_t groups = 1;
  bool bias = true;
  Activation activation = Activation::kNone;
};

// x [N, H, W, C]; filter [h, w, C / groups, filters] (He normal), bias [filters] (zeros).
Value Conv(const ModelContext& ctx, std::string_view name, Value x, const ConvOptions& options,
           SourceLocation where = SourceLocation::Current());

struct BatchNormOptions {
  // What the running statistics keep of their old value (TensorFlow's meaning and default).
  double momentum = 0.99;
  double epsilon = 1e-3;
};

// Over all axes but the last. In training the running mean and variance move towards those of the
// global batch (the variance unbiased, as in tf.nn.fused_batch_norm), by nodes in the collection
// update_ops.
Value BatchNormalization(const ModelContext& ctx, std::string_view name, Value x,
                         const BatchNormOptions& options = {},
                         SourceLocation where = SourceLocation::Current());

Value LayerNormalization(const ModelContext& ctx, std::string_view name, Value x,
                         double epsilon = 1e-5, SourceLocation where = SourceLocation::Current());

// Identity outside of training.
Value DropoutLayer(const ModelContext& ctx, std::string_view name, Value x, double rate,
                   SourceLocation where = SourceLocation::Current());

}  // namespace lockstep::model
