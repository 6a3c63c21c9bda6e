#include "lockstep/op/internal/onednn.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace lockstep::op::internal {

Result<dnnl::memory::data_type> ToDataType(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return dnnl::memory::data_type::f32;
    case DType::kBFloat16:
      return dnnl::memory::data_type::bf16;
    case DType::kInt32:
      return dnnl::memory::data_type::s32;
    case DType::kUInt8:
      return dnnl::memory::data_type::u8;
    default:
      return Unimplemented(fmt::format("oneDNN has no type for {}", DTypeName(dtype)));
  }
}

dnnl::memory::dims ToDims(const Shape& shape, DimOrder order) {
  dnnl::memory::dims dims(static_cast<size_t>(shape.rank()));
  for (size_t i = 0; i < dims.size(); ++i) {
    dims[i] = shape[order[i]];
  }
  return dims;
}

dnnl::memory::desc ToDesc(const Shape& shape, dnnl::memory::data_type type, const Layout& layout,
                          DimOrder order) {
  const auto rank = static_cast<size_t>(shape.rank());
  const dnnl::memory::dims dims = ToDims(shape, order);
  if (layout.is_plain()) {
    std::array<int64_t, Shape::kMaxRank> plain{};
    int64_t stride = 1;
    for (size_t i = rank; i-- > 0;) {
      plain[i] = stride;
      stride *= std::max<int64_t>(shape[static_cast<int>(i)], 1);
    }
    dnnl::memory::dims strides(rank);
    for (size_t i = 0; i < rank; ++i) {
      strides[i] = plain[static_cast<size_t>(order[i])];
    }
    return {dims, type, strides};
  }
  dnnl::memory::desc desc;
  desc.data.ndims = shape.rank();
  desc.data.data_type = dnnl::memory::convert_to_c(type);
  desc.data.format_kind = dnnl_blocked;
  dnnl_blocking_desc_t& blocking = desc.data.format_desc.blocking;
  std::array<int, Shape::kMaxRank> position{};
  for (size_t i = 0; i < rank; ++i) {
    const auto dim = static_cast<size_t>(order[i]);
    position[dim] = static_cast<int>(i);
    desc.data.dims[i] = dims[i];
    desc.data.padded_dims[i] = layout.padded_dims()[dim];
    blocking.strides[i] = layout.strides()[dim];
  }
  blocking.inner_nblks = static_cast<int>(layout.blocks().size());
  for (size_t i = 0; i < layout.blocks().size(); ++i) {
    blocking.inner_idxs[i] = position[static_cast<size_t>(layout.blocks()[i].dim)];
    blocking.inner_blks[i] = layout.blocks()[i].size;
  }
  return desc;
}

dnnl::memory::desc AnyDesc(const Shape& shape, dnnl::memory::data_type type, DimOrder order) {
  return {ToDims(shape, order), type, dnnl::memory::format_tag::any};
}

std::optional<Layout> ToLayout(const Shape& shape, const dnnl::memory::desc& desc, DimOrder order) {
  const dnnl_memory_desc_t& data = desc.data;
  if (data.ndims != shape.rank() || data.format_kind != dnnl_blocked || data.offset0 != 0 ||
      data.extra.flags != dnnl_memory_extra_flag_none ||
      data.format_desc.blocking.inner_nblks > Layout::kMaxBlocks) {
    return std::nullopt;
  }
  const auto rank = static_cast<size_t>(data.ndims);
  const dnnl_blocking_desc_t& blocking = data.format_desc.blocking;
  std::array<int64_t, Shape::kMaxRank> padded{};
  std::array<int64_t, Shape::kMaxRank> strides{};
  for (size_t i = 0; i < rank; ++i) {
    if (data.padded_offsets[i] != 0) {
      return std::nullopt;
    }
    const auto dim = static_cast<size_t>(order[i]);
    padded[dim] = data.padded_dims[i];
    strides[dim] = blocking.strides[i];
  }
  std::array<Layout::Block, Layout::kMaxBlocks> blocks{};
  const auto block_count = static_cast<size_t>(blocking.inner_nblks);
  for (size_t i = 0; i < block_count; ++i) {
    blocks[i] = {order[static_cast<size_t>(blocking.inner_idxs[i])], blocking.inner_blks[i]};
  }
  return Layout::Blocked(shape, {padded.data(), rank}, {strides.data(), rank},
                         {blocks.data(), block_count});
}

Status FromDnnlError(const dnnl::error& error) {
  const std::string message = fmt::format("oneDNN: {}", error.what());
  switch (error.status) {
    case dnnl_out_of_memory:
      return ResourceExhausted(message);
    case dnnl_unimplemented:
      return Unimplemented(message);
    default:
      return Internal(message);
  }
}

dnnl::primitive_attr UserScratchAttr() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

OnednnCall::OnednnCall(const dnnl::engine& engine, dnnl::primitive primitive,
                       const std::vector<Arg>& args, const dnnl::memory::desc& scratch, int threads)
    : state_(std::make_shared<State>()) {
  state_->engine = engine;
  state_->stream = dnnl::stream(engine);
  state_->primitive = std::move(primitive);
  state_->threads = threads;
  for (const Arg& arg : args) {
    state_->memories.emplace_back(arg.desc, engine, nullptr);
    state_->args.push_back({arg.id, state_->memories.back().get()});
  }
  state_->scratch_bytes = scratch.get_size();
  state_->has_scratch = state_->scratch_bytes != 0;
  if (state_->has_scratch) {
    state_->memories.emplace_back(scratch, engine, nullptr);
    state_->args.push_back({DNNL_ARG_SCRATCHPAD, state_->memories.back().get()});
  }
  state_->pointers.resize(state_->memories.size());
}

Status OnednnCall::Run(std::initializer_list<const void*> data, void* scratch) const {
  State& state = *state_;
  LS_CHECK(data.size() + (state.has_scratch ? 1 : 0) == state.memories.size());
  const OnednnThreads threads(state.threads);
  // Setting a handle zeroes the padding behind it, so it is set only when it changes: the buffers
  // of a plan are fixed.
  const auto bind = [&state](size_t i, const void* pointer) {
    if (state.pointers[i] == pointer) {
      return dnnl_success;
    }
    state.pointers[i] = pointer;
    return dnnl_memory_set_data_handle_v2(state.memories[i].get(), const_cast<void*>(pointer),
                                          state.stream.get());
  };
  dnnl_status_t status = dnnl_success;
  size_t i = 0;
  for (const void* pointer : data) {
    if (status == dnnl_success) {
      status = bind(i++, pointer);
    }
  }
  if (status == dnnl_success && state.has_scratch) {
    status = bind(i, scratch);
  }
  if (status == dnnl_success) {
    status = dnnl_primitive_execute(state.primitive.get(), state.stream.get(),
                                    static_cast<int>(state.args.size()), state.args.data());
  }
  if (status != dnnl_success) {
    return Internal(
        fmt::format("oneDNN: running a primitive failed with status {}", static_cast<int>(status)));
  }
  return OkStatus();
}

dnnl::engine CpuEngine() {
  return {dnnl::engine::kind::cpu, 0};
}

int64_t VectorWidth() {
  // The enumerators' bits grow with the instructions that are included.
  constexpr auto kAvx512 = static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  return (isa & kAvx512) == kAvx512 ? 16 : 8;
}

bool IsReferenceImplementation(const char* impl_info) {
  const std::string_view info(impl_info);
  return info.starts_with("ref") || info.starts_with("simple:any");
}

}  // namespace lockstep::op::internal
