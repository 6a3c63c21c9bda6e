#include "lockstep/graph/op_def.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep {

Status InferContext::ExpectRank(int i, int rank) const {
  if (shape(i).rank() != rank) {
    return InvalidArgument(
        fmt::format("input {} has the shape {}, expected rank {}", i, shape(i).ToString(), rank));
  }
  return OkStatus();
}

Status InferContext::ExpectMinRank(int i, int rank) const {
  if (shape(i).rank() < rank) {
    return InvalidArgument(fmt::format("input {} has the shape {}, expected rank {} or more", i,
                                       shape(i).ToString(), rank));
  }
  return OkStatus();
}

Status InferContext::ExpectDType(int i, DType dtype) const {
  if (this->dtype(i) != dtype) {
    return InvalidArgument(
        fmt::format("input {} is {}, expected {}", i, DTypeName(this->dtype(i)), DTypeName(dtype)));
  }
  return OkStatus();
}

Status InferContext::ExpectFloating(int i) const {
  if (!IsFloating(dtype(i))) {
    return InvalidArgument(fmt::format("input {} is {}, expected float32, bfloat16 or float64", i,
                                       DTypeName(dtype(i))));
  }
  return OkStatus();
}

Status InferContext::ExpectSameDType(int i, int j) const {
  if (dtype(i) != dtype(j)) {
    return InvalidArgument(fmt::format("inputs {} and {} differ in type: {} and {}", i, j,
                                       DTypeName(dtype(i)), DTypeName(dtype(j))));
  }
  return OkStatus();
}

Status InferContext::ExpectSameShape(int i, int j) const {
  if (!shape(i).CompatibleWith(shape(j))) {
    return InvalidArgument(fmt::format("inputs {} and {} differ in shape: {} and {}", i, j,
                                       shape(i).ToString(), shape(j).ToString()));
  }
  return OkStatus();
}

OpCatalog::OpCatalog(std::vector<OpDef> ops) : ops_(std::move(ops)) {
  std::sort(ops_.begin(), ops_.end(),
            [](const OpDef& a, const OpDef& b) { return a.name < b.name; });
  const auto twin = std::adjacent_find(
      ops_.begin(), ops_.end(), [](const OpDef& a, const OpDef& b) { return a.name == b.name; });
  LS_CHECK(twin == ops_.end());
}

const OpDef* OpCatalog::Find(std::string_view name) const {
  const auto it =
      std::lower_bound(ops_.begin(), ops_.end(), name,
                       [](const OpDef& op, std::string_view wanted) { return op.name < wanted; });
  return it != ops_.end() && it->name == name ? &*it : nullptr;
}

}  // namespace lockstep
