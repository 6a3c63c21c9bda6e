#include "lockstep/op/internal/conv_spec.h"

#include <fmt/format.h>

namespace lockstep::op::internal {

Result<ConvSpec> ResolveConv(const AttrMap& attrs, const Shape& x, const Shape& filter) {
  ConvSpec spec;
  LS_ASSIGN_OR_RETURN(spec.axes, ParseDataFormat(attrs));
  if (x.rank() != 4 || filter.rank() != 4) {
    return InvalidArgument(fmt::format("a convolution of {} with the filter {}: both need rank 4",
                                       x.ToString(), filter.ToString()));
  }
  for (const int64_t size : filter.dims()) {
    if (size < 1) {
      return InvalidArgument(fmt::format(
          "the filter has the shape {}, expected known sizes of 1 or more", filter.ToString()));
    }
  }
  spec.groups = attrs.GetInt("groups");
  const int64_t channels = x[spec.axes.c];
  if (spec.groups < 1 || filter[3] % spec.groups != 0) {
    return InvalidArgument(fmt::format("groups is {}, expected a divisor of the {} output channels",
                                       spec.groups, filter[3]));
  }
  const int64_t wanted = filter[2] * spec.groups;
  if (channels != Shape::kUnknownDim && channels != wanted) {
    return InvalidArgument(
        fmt::format("the input {} has {} channels, the filter {} in {} groups takes {}",
                    x.ToString(), channels, filter.ToString(), spec.groups, wanted));
  }
  LS_ASSIGN_OR_RETURN(spec.windows,
                      ResolveWindows(attrs, x[spec.axes.h], x[spec.axes.w], filter[0], filter[1]));
  spec.x = x;
  spec.x.set_dim(spec.axes.c, wanted);
  spec.filter = filter;
  spec.y = MakeImageShape(spec.axes, x[spec.axes.n], filter[3], spec.windows.h.output,
                          spec.windows.w.output);
  return spec;
}

std::vector<AttrDef> ConvAttrs(const std::vector<AttrDef>& more) {
  std::vector<AttrDef> attrs =
      WindowAttrs({{"dilations", AttrType::kInts, std::vector<int64_t>{1, 1}},
                   {"groups", AttrType::kInt, int64_t{1}}});
  attrs.insert(attrs.end(), more.begin(), more.end());
  return attrs;
}

}  // namespace lockstep::op::internal
