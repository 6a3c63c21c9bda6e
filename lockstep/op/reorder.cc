#include "lockstep/op/reorder.h"

#include <array>
#include <cstring>

#include "lockstep/op/internal/onednn.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::op {
namespace {

using internal::CpuEngine;
using internal::Guarded;
using internal::OnednnCall;
using internal::OnednnThreads;
using internal::ToDataType;
using internal::ToDesc;
using internal::UserScratchAttr;

int64_t StorageElements(const Shape& shape, DType dtype, const Layout& layout) {
  return static_cast<int64_t>(layout.Bytes(shape, dtype) / DTypeSize(dtype));
}

// Element by element: for types that oneDNN does not know.
void CopyElements(const Shape& shape, DType from_dtype, const Layout& from, const char* source,
                  DType to_dtype, const Layout& to, char* target) {
  const size_t from_size = DTypeSize(from_dtype);
  const size_t to_size = DTypeSize(to_dtype);
  if (!to.is_dense_for(shape)) {
    std::memset(target, 0, to.Bytes(shape, to_dtype));
  }
  std::array<int64_t, Shape::kMaxRank> index{};
  const std::span<const int64_t> position(index.data(), static_cast<size_t>(shape.rank()));
  const int64_t count = shape.num_elements();
  for (int64_t i = 0; i < count; ++i) {
    const auto from_offset = static_cast<size_t>(from.OffsetOf(shape, position));
    const auto to_offset = static_cast<size_t>(to.OffsetOf(shape, position));
    ConvertElements(from_dtype, source + from_offset * from_size, to_dtype,
                    target + to_offset * to_size, 1);
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      if (++index[static_cast<size_t>(axis)] < shape[axis]) {
        break;
      }
      index[static_cast<size_t>(axis)] = 0;
    }
  }
}

Result<Reorder> MakeOnednnReorder(const Shape& shape, DType from_dtype, const Layout& from,
                                  DType to_dtype, const Layout& to, int threads) {
  LS_ASSIGN_OR_RETURN(const auto from_type, ToDataType(from_dtype));
  LS_ASSIGN_OR_RETURN(const auto to_type, ToDataType(to_dtype));
  return Guarded([&]() -> Result<Reorder> {
    const OnednnThreads scope(threads);
    const dnnl::engine engine = CpuEngine();
    const dnnl::memory::desc from_desc = ToDesc(shape, from_type, from);
    const dnnl::memory::desc to_desc = ToDesc(shape, to_type, to);
    const dnnl::reorder::primitive_desc desc(engine, from_desc, engine, to_desc, UserScratchAttr());
    const OnednnCall call(engine, dnnl::reorder(desc),
                          {{DNNL_ARG_FROM, from_desc}, {DNNL_ARG_TO, to_desc}},
                          desc.scratchpad_desc(), threads);
    return Reorder{call.scratch_bytes(), [call](const void* source, void* target, void* scratch) {
                     return call.Run({source, target}, scratch);
                   }};
  });
}

bool IsOnednnType(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kBFloat16;
}

}  // namespace

Result<Reorder> MakeReorder(const Shape& shape, DType from_dtype, const Layout& from,
                            DType to_dtype, const Layout& to, int threads) {
  if (from == to) {
    const int64_t count = StorageElements(shape, from_dtype, from);
    if (from_dtype == to_dtype) {
      const size_t bytes = static_cast<size_t>(count) * DTypeSize(from_dtype);
      return Reorder{0, [bytes](const void* source, void* target, void*) {
                       std::memcpy(target, source, bytes);
                       return OkStatus();
                     }};
    }
    return Reorder{0, [from_dtype, to_dtype, count](const void* source, void* target, void*) {
                     ConvertElements(from_dtype, source, to_dtype, target, count);
                     return OkStatus();
                   }};
  }
  if (IsOnednnType(from_dtype) && IsOnednnType(to_dtype) && shape.num_elements() > 0) {
    Result<Reorder> reorder = MakeOnednnReorder(shape, from_dtype, from, to_dtype, to, threads);
    if (reorder.ok() || reorder.status().code() != StatusCode::kUnimplemented) {
      return reorder;
    }
  }
  return Reorder{0, [=](const void* source, void* target, void*) {
                   CopyElements(shape, from_dtype, from, static_cast<const char*>(source), to_dtype,
                                to, static_cast<char*>(target));
                   return OkStatus();
                 }};
}

}  // namespace lockstep::op
