#include "lockstep/op/internal/reduce_view.h"

#include <fmt/format.h>

namespace lockstep::op {

Result<std::vector<bool>> ReducedAxes(std::span<const int64_t> axes, int rank) {
  std::vector<bool> reduced(static_cast<size_t>(rank), axes.empty());
  for (const int64_t given : axes) {
    LS_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(given, rank));
    if (reduced[static_cast<size_t>(axis)]) {
      return InvalidArgument(fmt::format("the attribute 'axes' names axis {} twice", axis));
    }
    reduced[static_cast<size_t>(axis)] = true;
  }
  return reduced;
}

Shape ReducedShape(const Shape& shape, const std::vector<bool>& reduced, bool keep_dims) {
  Shape result;
  for (int i = 0; i < shape.rank(); ++i) {
    if (!reduced[static_cast<size_t>(i)]) {
      result.Append(shape[i]);
    } else if (keep_dims) {
      result.Append(1);
    }
  }
  return result;
}

ReduceView MakeReduceView(const Shape& shape, const std::vector<bool>& reduced) {
  ReduceView view;
  // Innermost first, reversed at the end.
  int64_t stride = 1;
  bool first = true;
  bool last_reduced = false;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    const int64_t size = shape[i];
    const bool is_reduced = reduced[static_cast<size_t>(i)];
    (is_reduced ? view.reduced_count : view.kept_count) *= size;
    if (size != 1) {
      std::vector<ReduceView::Dim>& dims = is_reduced ? view.reduced : view.kept;
      if (!first && is_reduced == last_reduced) {
        dims.back().size *= size;
      } else {
        dims.push_back({size, stride});
      }
      if (first) {
        view.inner_reduced = is_reduced;
      }
      first = false;
      last_reduced = is_reduced;
      stride *= size;
    }
  }
  view.kept = {view.kept.rbegin(), view.kept.rend()};
  view.reduced = {view.reduced.rbegin(), view.reduced.rend()};
  return view;
}

}  // namespace lockstep::op
