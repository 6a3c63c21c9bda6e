// Codec: what float32 values of replicas are rounded to, so that sums of them need fewer bytes on
// the wire. What a codec changes depends on the logical replica and the tree alone, never on who
// holds what, so the bits are the same for any number of members (docs/collectives.md):
//
//   leaves   LeafCodec replaces the value of a replica by the nearest one that the codec has; with
//            error feedback the replica adds what was lost to its value of the next step
//   nodes    bf16 and fp16 round the sum at every node of the tree (RoundNode); the sums of int8
//            and top_k values are those of float32
//   wire     a call with CallSpec::codec packs what it sends, without any loss
//
// Errors of one leaf x, m being the largest |x| of its block of 1024 elements, n its elements:
//
//   bf16     |x| * 2^-8; infinity beyond 3.39e38; and so at every node
//   fp16     |x| * 2^-11, or 2^-25 if that is more; infinity from 65520 on; and so at every node
//   int8     m / 127, or 2^-100 if that is more; the same bound holds for what is fed back
//   top_k    the k largest of x are exact, others are 0: the squares of what is lost add up to at
//            most 1 - k / n of those of x
//
// NaN and infinity stay what they are.
#pragma once

#include <cstdint>
#include <string_view>

#include "lockstep/base/result.h"

namespace lockstep::collective {

enum class Codec { kNone, kBFloat16, kFloat16, kInt8, kTopK };

// "none", "bf16", "fp16", "int8", "top_k".
std::string_view CodecName(Codec codec);
Result<Codec> ParseCodec(std::string_view name);

// The sums of two nodes, to what the node above them may have.
void RoundNode(Codec codec, float* values, int64_t count);

}  // namespace lockstep::collective
