// LeafCodec: the codec of one logical replica, with what it has to feed back. A replica passes its
// values through it before they are added to those of others:
//
//   LeafCodec codec({.codec = Codec::kInt8});
//   LS_TRY(codec.Apply(0, gradient_of_variable_0));      every step
//
// Values are numbered by the caller: variables, not buckets, so that results do not depend on the
// size of these. The state belongs to the replica: when another task takes the replica over, or a
// checkpoint is written, it goes along (residuals, Restore). Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/collective/codec.h"

namespace lockstep::collective {

struct CodecOptions {
  Codec codec = Codec::kNone;
  // kTopK: the share of the elements of a value that is sent, at least one of them. More than 0, at
  // most 1.
  double top_share = 0.01;
};

class LeafCodec {
 public:
  explicit LeafCodec(const CodecOptions& options) : options_(options) {}

  // True for codecs that feed errors back, which have residuals.
  static bool HasResiduals(Codec codec) { return codec == Codec::kInt8 || codec == Codec::kTopK; }

  // Adds the residual of value number `index` (zeros at first), replaces `values` by what the codec
  // makes of them, and keeps the difference. Errors: InvalidArgument when the value had another
  // size before.
  Status Apply(size_t index, std::span<float> values);

  // By the number of the value; empty where Apply was never called, and for codecs without.
  const std::vector<std::vector<float>>& residuals() const { return residuals_; }

  // Goes on from there. Errors: InvalidArgument for a codec without residuals.
  Status Restore(std::vector<std::vector<float>> residuals);

 private:
  Result<std::span<float>> ResidualOf(size_t index, size_t elements);

  CodecOptions options_;
  std::vector<std::vector<float>> residuals_;
};

}  // namespace lockstep::collective
