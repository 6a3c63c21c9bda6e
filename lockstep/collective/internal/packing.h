// What a call with a codec sends: float32 values in fewer bytes, without loss. Blocks of 256
// values, each in the smallest of the forms that the codec's values have and that keeps all of its
// bits; values that no form fits, such as NaN, are sent as they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/collective/codec.h"

namespace lockstep::collective::internal {

// The most bytes that `count` values need.
size_t PackedBound(int64_t count);

// Returns the bytes written; `out` has PackedBound(count).
size_t Pack(Codec codec, const float* values, int64_t count, std::byte* out);

// Of a peer. Errors: DataLoss when it is not what Pack makes of `count` values.
Status Unpack(std::span<const std::byte> packed, int64_t count, float* values);

}  // namespace lockstep::collective::internal
