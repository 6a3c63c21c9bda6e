// The variable TF_CONFIG, as TensorFlow documents it and as Kubeflow, Vertex AI and SageMaker set
// it:
//
//   {"cluster": {"chief": ["a:2222"], "worker": ["b:2222", "c:2222"], "ps": ["d:2222"]},
//    "task": {"type": "worker", "index": 1}, "rpc_layer": "grpc", "environment": "cloud"}
//
// Strict: every fault of the JSON or of its content is INVALID_ARGUMENT with line, column and byte.
// `sparseCluster` (Kubeflow's elastic workers) stands for `cluster`; a job that is null or empty
// does not exist; `evaluator` is not a member of training, whether `cluster` lists it or not;
// without `task`, the process is the only task, or else a client. Keys that only TensorFlow's
// Estimator or a cloud reads are ignored with a note.
#pragma once

#include <string_view>

#include "lockstep/base/result.h"
#include "lockstep/cluster/resolver/resolution.h"

namespace lockstep::cluster {

Result<Resolution> ResolveTfConfig(std::string_view text);

// What `lockstep launch` gives its tasks; ResolveTfConfig understands it.
std::string TfConfigText(const ClusterSpec& cluster, const TaskId& task);

}  // namespace lockstep::cluster
