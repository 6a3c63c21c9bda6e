// The attribute label_smoothing of the cross entropies.
#pragma once

#include <fmt/format.h>

#include "lockstep/graph/attr.h"

namespace lockstep::op {

// In [0, 1).
inline Status CheckLabelSmoothing(const AttrMap& attrs) {
  const double smoothing = attrs.GetFloat("label_smoothing");
  if (smoothing >= 0.0 && smoothing < 1.0) {
    return OkStatus();
  }
  return InvalidArgument(fmt::format(
      "the attribute 'label_smoothing' is {}, allowed is 0 or more and less than 1", smoothing));
}

}  // namespace lockstep::op
