// The configuration of a run: a TOML file, strictly checked, plus overrides from the command line.
//
// Whatever is not understood is an error (INVALID_ARGUMENT) that names its place: unknown sections
// and keys with the nearest known name, wrong types and values with what was found and what is
// allowed, and keys that would have no effect (a momentum for Adam). Paths are relative to the
// working directory. Each field below is one key; its comment gives unit, default and range.
//
//   const std::vector<ConfigOverride> overrides = {{"--steps 3", "train.steps", "3"}};
//   LS_ASSIGN_OR_RETURN(const Config config, LoadConfig("mnist.toml", overrides));
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/result.h"

namespace lockstep::train {

// What messages call the layer at this index of [[model.layers]]. They count from 1, as the names
// of variables do: "model.layers[1]" has "layer1_conv2d/filter".
std::string LayerName(int64_t index);

// One [[model.layers]] table. Which keys a layer has depends on its type; others are refused:
//   conv2d           filters, kernel, stride, padding, dilation, groups, activation, bias
//   dense            units, activation, bias
//   max_pool         kernel, stride, padding
//   avg_pool         kernel, stride, padding
//   batch_norm       momentum, epsilon
//   layer_norm       epsilon
//   dropout          rate
//   activation       activation
//   global_avg_pool, flatten, and each name of an activation (type = "relu"): none
struct LayerConfig {
  // Required. An activation's name is stored as type "activation".
  std::string type;
  // Where the table stands, for messages of those who build the model: "mnist.toml:12:1".
  std::string where;
  // Output channels; required, 1 to 65536.
  int64_t filters = 0;
  // [height, width], or one number for both: required for conv2d, default 2 for pools; 1 to 1024.
  std::array<int64_t, 2> kernel = {0, 0};
  // [height, width], or one number for both: default 1 for conv2d, the kernel for pools; 1 to 1024.
  std::array<int64_t, 2> stride = {1, 1};
  // "same" or "valid"; default "same" for conv2d, "valid" for pools.
  std::string padding = "same";
  // [height, width], or one number for both: default 1; 1 to 1024.
  std::array<int64_t, 2> dilation = {1, 1};
  // Default 1; must divide the channels; 1 to 65536.
  int64_t groups = 1;
  // Output features; required, 1 to 2^24.
  int64_t units = 0;
  // "none", "relu", "leaky_relu", "elu", "gelu", "silu", "sigmoid", "tanh" or "softplus"; default
  // "none", required for type "activation".
  std::string activation = "none";
  // Adds a bias; default true.
  bool bias = true;
  // Share of elements set to zero; required, 0 to less than 1.
  double rate = 0;
  // What running statistics keep of their old value; default 0.99, 0 to less than 1.
  double momentum = 0.99;
  // Added to the variance; default 1e-3, greater than 0.
  double epsilon = 1e-3;
};

// [model]
struct ModelConfig {
  // Required: softmax_regression, mlp, mnist_cnn, lenet5, resnet20, resnet32, resnet18, resnet34,
  // resnet50, or "layers" for a list of [[model.layers]].
  std::string name;
  // Where the section stands, for messages of those who build the model: "mnist.toml:2:1".
  std::string where;
  // Default 0: as many as the data has; 2 to 2^24.
  int64_t num_classes = 0;
  // Of one sample, [height, width, channels] for images; default empty: that of the data; required
  // for synthetic data. 1 to 7 dimensions of 1 to 2^20, at most 2^31 - 1 elements.
  std::vector<int64_t> input_shape;
  // Units of the hidden layers, for "mlp" only; default [128], at most 1000, each 1 to 2^24.
  std::vector<int64_t> hidden = {128};
  // Share of elements set to zero in front of the last dense layer, for "mlp" and "mnist_cnn" only;
  // default 0, 0 to less than 1.
  double dropout = 0;
  // For "layers" only, and required there; at most 1000.
  std::vector<LayerConfig> layers;
};

// [data]
struct DataConfig {
  // Required: "mnist", "idx" (a folder laid out as MNIST is, of any image size) or "synthetic".
  std::string source;
  // Folder of the files; required for "mnist" and "idx", refused for "synthetic".
  std::string path;
  // For "synthetic" only, samples: default 1024, 1 to 2^31 - 1; and default 256, 0 to 2^31 - 1.
  int64_t train_samples = 1024;
  int64_t test_samples = 256;
  // A new order every epoch; default true.
  bool shuffle = true;
};

// [train]
struct TrainConfig {
  // Samples of one step over all replicas; default 64, 1 to 2^31 - 1.
  int64_t global_batch = 64;
  // When to stop: after so many epochs or steps, whichever comes first; 0 means no limit of this
  // kind. Default one epoch if neither is given, otherwise no limit; up to 10^12. An override of
  // one of them replaces both.
  int64_t epochs = 0;
  int64_t steps = 0;
  // Of everything random; default 0, 0 to 2^63 - 1.
  int64_t seed = 0;
  // Logical replicas R, part of what the numbers depend on (how many devices execute them is not);
  // default 1, 1 to 65536.
  int64_t replicas = 1;
  // "fp32", or "bf16": weights and sums in fp32, the rest in bf16; default "fp32".
  std::string precision = "fp32";
  // Samples of one evaluation step; default 256, 1 to 2^31 - 1.
  int64_t eval_batch = 256;
  // Steps between lines of progress where there is no terminal; default 0: by time; up to 10^12.
  int64_t log_every_steps = 0;
  // What the target gives away to all classes evenly; default 0, 0 to less than 1.
  double label_smoothing = 0;
  // Micro-batches that a replica's part of a step is split into, to need less memory; default 1,
  // 1 to 65536.
  int64_t gradient_accumulation = 1;
  // Bounds of each gradient element, of the norm of each gradient, and of the norm of all together;
  // default 0: none; at least 0. At most one of them.
  double clip_value = 0;
  double clip_norm = 0;
  double clip_global_norm = 0;
  // For the strategy local_sgd only: steps between merges of the replicas' models; default 16, 1 to
  // 10^12.
  int64_t merge_steps = 16;
  // For local_sgd only: the optimizer that takes the merged model towards the average of the
  // replicas'; rate default 1, greater than 0; momentum default 0, 0 to less than 1; Nesterov's
  // default false.
  double outer_learning_rate = 1;
  double outer_momentum = 0;
  bool outer_nesterov = false;
  // Steps between comparisons of the workers' variables, bit by bit; default 0: only at the
  // end of the run; up to 10^12.
  int64_t check_replicas = 0;
};

// [optimizer.schedule]: the learning rate at a step. Keys that the kind does not name are refused,
// except warmup_steps.
struct ScheduleConfig {
  // "constant" (default), "piecewise" (boundaries, values), "cosine" (decay_steps,
  // end_learning_rate), "polynomial" (decay_steps, end_learning_rate, power) or "exponential"
  // (decay_steps, decay_rate, staircase).
  std::string name = "constant";
  // Steps after which the next value counts; required for piecewise, at least one, increasing, 1 to
  // 10^12.
  std::vector<int64_t> boundaries;
  // Learning rates; required for piecewise, one more than boundaries, each at least 0.
  std::vector<double> values;
  // Steps; default 0: the whole run (cosine and polynomial); required for exponential; 1 to 10^12.
  int64_t decay_steps = 0;
  // Factor per decay_steps; required for exponential, greater than 0, at most 1.
  double decay_rate = 1;
  // Decays in jumps every decay_steps; default false.
  bool staircase = false;
  // Exponent; default 1, greater than 0.
  double power = 1;
  // Default 0, at least 0.
  double end_learning_rate = 0;
  // Steps of linear increase from 0 in front of the schedule; default 0, up to 10^12.
  int64_t warmup_steps = 0;
};

// [optimizer]. Keys that the optimizer does not use are refused.
struct OptimizerConfig {
  // sgd, momentum, adam, adamw, rmsprop, adagrad, lars or lamb; "nesterov" is stored as momentum
  // with nesterov = true. Default "sgd".
  std::string name = "sgd";
  // Required, except with a piecewise schedule, which has its own; at least 0.
  double learning_rate = 0;
  // momentum, lars: default 0.9; rmsprop: default 0; 0 to less than 1.
  double momentum = 0.9;
  // momentum: default false.
  bool nesterov = false;
  // adam, adamw, lamb: decay of the first and second moments; default 0.9 and 0.999, 0 to less than
  // 1.
  double beta1 = 0.9;
  double beta2 = 0.999;
  // rmsprop: decay of the mean square; default 0.9, 0 to less than 1.
  double rho = 0.9;
  // adam, adamw, rmsprop, adagrad, lars: default 1e-7; lamb: default 1e-6; greater than 0.
  double epsilon = 1e-7;
  // rmsprop: subtracts the mean of the gradient; default false.
  bool centered = false;
  // adagrad: initial sum of squares; default 0.1, at least 0.
  double initial_accumulator = 0.1;
  // lars: factor of the ratio of norms; default 0.001, greater than 0.
  double trust_coefficient = 0.001;
  // adamw, lars, lamb: decay of the weights themselves, times the learning rate; default 0, at
  // least 0.
  double weight_decay = 0;
  // All but lars and lamb: adds l2 / 2 * |w|^2 to the loss; default 0, at least 0.
  double l2 = 0;
  // Patterns (* and ?) of the names of variables that neither weight_decay nor l2 touches; default
  // none. Refused where neither is given; each must match a trainable variable of the model.
  std::vector<std::string> decay_exclude;
  ScheduleConfig schedule;
};

// What optimizer.name may be, "nesterov" included.
std::span<const std::string_view> OptimizerNames();

// [cluster]
struct ClusterConfig {
  // "sync" (default), "bounded" or "async".
  std::string mode = "sync";
  // Default 0, up to 10^6.
  int64_t max_restarts = 0;
  // How workers exchange tensors: "auto" (default; the best that both ends have), "shm", "ucx" or
  // "grpc".
  std::string transport = "auto";
  // How gradients are added up over the workers: "auto" (default), "gather", "pairwise",
  // "halving_doubling", "two_level" or "shared".
  std::string algorithm = "auto";
  // Bytes of gradients that are added up over the workers at once; default 25 MiB, 4 to 2^40.
  int64_t bucket_bytes = int64_t{25} << 20;
  // Seconds that a task waits for the others at the start, and in a step; default 300 and 600,
  // greater than 0, at most 10^6.
  double start_timeout = 300;
  double step_timeout = 600;
  // Seconds; a lost task is known to the others within twice this time; default 5, 0.01 to 10^6.
  double heartbeat = 5;
};

// [checkpoint]
struct CheckpointConfig {
  // Steps between checkpoints; default 0: none; up to 10^12.
  int64_t every_steps = 0;
  // Folder; default empty: none.
  std::string dir;
};

// [monitor]
struct MonitorConfig {
  // Folder of the event files; default empty: none.
  std::string logdir;
};

struct Config {
  ModelConfig model;
  DataConfig data;
  TrainConfig train;
  OptimizerConfig optimizer;
  ClusterConfig cluster;
  CheckpointConfig checkpoint;
  MonitorConfig monitor;

  // The keys that were given ("checkpoint.every_steps") and where: "mnist.toml:12:9", or the flag.
  // For programs that must refuse a setting whose feature they do not have.
  std::map<std::string, std::string, std::less<>> given;

  // The whole file with the overrides in it, as TOML: what a checkpoint keeps of its run.
  std::string text;

  bool IsGiven(std::string_view key) const { return given.find(key) != given.end(); }
};

// A value from the command line in place of the file's.
struct ConfigOverride {
  // As the user wrote it, for messages: "--set optimizer.learning_rate=0.1", "--steps 3". Plain
  // text of bounded length (Shown).
  std::string flag;
  // "optimizer.learning_rate".
  std::string key;
  // A TOML value; what is none is taken as a string without quotes.
  std::string value;
};

// "section.key=value", the argument of --set.
Result<ConfigOverride> ParseSetFlag(std::string_view argument);

// Reads the file (at most 1 MiB). Later overrides win.
Result<Config> LoadConfig(const std::string& path, std::span<const ConfigOverride> overrides);

// The same for the text of a file, which messages call `name`.
Result<Config> ParseConfig(std::string_view text, const std::string& name,
                           std::span<const ConfigOverride> overrides);

}  // namespace lockstep::train
