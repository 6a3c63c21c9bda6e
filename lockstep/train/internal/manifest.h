// manifest.json of a checkpoint. A JSON object whose last member "sha256" is the hash of all bytes
// before that line, so that any damage is found:
//
//   { "format": "lockstep-checkpoint", "format_version": 1, "step": 123,
//     "data": {"epoch": 1, "next_batch_step": 23}, "seed": 7, "program_fingerprint": "...",
//     "config": "...",
//     "shards": [{"file": "shard-00000-of-00001.safetensors", "bytes": 512, "sha256": "..."}],
//     "variables": [{"name": "w", "role": "model", "dtype": "float32", "shape": [3, 4],
//                    "slices": [{"shard": 0, "begin": [0, 0], "shape": [3, 4]}]}],
//     "sha256": "..." }
//
// A slice is the part of the variable that the tensor of that name in a shard holds. This version
// writes and reads variables of one slice that is the whole.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/train/checkpoint.h"

namespace lockstep::train::internal {

inline constexpr std::string_view kManifestName = "manifest.json";
inline constexpr uint64_t kMaxManifestBytes = uint64_t{16} << 20;

// "shard-00000-of-00004.safetensors".
std::string ShardName(size_t index, size_t count);

struct ManifestVariable {
  VariableSpec spec;
  size_t shard = 0;
};

struct Manifest {
  CheckpointContents contents;
  // By index.
  std::vector<FileDigest> shards;
  // Model variables, then slots, each in the order of `contents`.
  std::vector<ManifestVariable> variables;
};

// A text that is not UTF-8 is INVALID_ARGUMENT.
Result<std::string> ManifestText(const Manifest& manifest);

// `path` is for messages. Damage is DATA_LOSS, a newer version or a partitioned variable
// UNIMPLEMENTED.
Result<Manifest> ParseManifest(std::string_view text, const std::string& path);

}  // namespace lockstep::train::internal
