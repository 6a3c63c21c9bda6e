#include "lockstep/op/internal/matmul_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "lockstep/op/internal/narrow_matmul.h"
#include "lockstep/op/internal/onednn.h"

namespace lockstep::op::internal {
namespace {

// Element offsets of the matrices of one operand, one for each batch of the result.
std::vector<int64_t> BatchOffsets(const Shape& operand, const Shape& result) {
  const int batch_rank = result.rank() - 2;
  const int skipped = result.rank() - operand.rank();
  std::array<int64_t, Shape::kMaxRank> strides{};
  int64_t stride = operand.dim(-1) * operand.dim(-2);
  int64_t batches = 1;
  for (int i = batch_rank - 1; i >= 0; --i) {
    const int64_t size = i < skipped ? 1 : operand[i - skipped];
    strides[static_cast<size_t>(i)] = size == 1 ? 0 : stride;
    stride *= size;
    batches *= result[i];
  }
  std::vector<int64_t> offsets(static_cast<size_t>(batches));
  for (size_t batch = 0; batch < offsets.size(); ++batch) {
    int64_t rest = static_cast<int64_t>(batch);
    for (int i = batch_rank - 1; i >= 0; --i) {
      offsets[batch] += (rest % result[i]) * strides[static_cast<size_t>(i)];
      rest /= result[i];
    }
  }
  return offsets;
}

void AddBiasAndActivate(float* y, const float* bias, int64_t m, int64_t n, bool relu) {
  for (int64_t i = 0; i < m; ++i) {
    float* row = y + i * n;
    if (relu) {
      for (int64_t j = 0; j < n; ++j) {
        const float sum = row[j] + bias[j];
        row[j] = sum > 0.0F ? sum : 0.0F;
      }
    } else {
      for (int64_t j = 0; j < n; ++j) {
        row[j] += bias[j];
      }
    }
  }
}

// How the float32 kernels find an operand: as it lies, with the transposition that this means.
struct Stored {
  Layout layout;
  bool transposed;
};

Layout ColumnMajor(const Shape& shape) {
  const std::array<int64_t, 2> strides = {1, shape[0]};
  return Layout::Blocked(shape, shape.dims(), strides, {});
}

Stored AsItLies(const Shape& shape, const Layout& layout, bool transposed) {
  if (shape.rank() == 2 && !layout.is_plain() && layout == ColumnMajor(shape)) {
    return {layout, !transposed};
  }
  return {Layout(), transposed};
}

std::vector<Layout> InputLayouts(const MatMulSpec& spec, const Stored& a, const Stored& b) {
  std::vector<Layout> layouts = {a.layout, b.layout};
  layouts.resize(spec.bias ? 3 : 2);
  return layouts;
}

Kernel MakeGemmKernel(const MatMulSpec& spec, const Stored& a, const Stored& b) {
  Kernel kernel;
  kernel.input_layouts = InputLayouts(spec, a, b);
  kernel.run = [spec, ta = a.transposed, tb = b.transposed,
                a_offsets = BatchOffsets(spec.a, spec.y),
                b_offsets = BatchOffsets(spec.b, spec.y)](const KernelArgs& args) -> Status {
    const OnednnThreads threads(spec.threads);
    const int64_t m = spec.m();
    const int64_t n = spec.n();
    const int64_t k = spec.k();
    for (size_t i = 0; i < a_offsets.size(); ++i) {
      float* y = args.out<float>(0) + static_cast<int64_t>(i) * m * n;
      const dnnl_status_t status = dnnl_sgemm(
          ta ? 'T' : 'N', tb ? 'T' : 'N', m, n, k, 1.0F, args.in<float>(0) + a_offsets[i],
          ta ? m : k, args.in<float>(1) + b_offsets[i], tb ? k : n, 0.0F, y, n);
      if (status != dnnl_success) {
        return Internal(fmt::format("oneDNN: a matrix product failed with status {}",
                                    static_cast<int>(status)));
      }
      if (spec.bias) {
        AddBiasAndActivate(y, args.in<float>(2), m, n, spec.relu);
      }
    }
    return OkStatus();
  };
  return kernel;
}

// y = a b with few columns: rows of a times columns of b. The columns must be contiguous; a b that
// is not is copied first.
Kernel MakeNarrowDot(const MatMulSpec& spec, const Stored& a, Stored b) {
  if (!b.transposed && spec.b_flexible) {
    b = {spec.transpose_b ? Layout() : ColumnMajor(spec.b), true};
  }
  const int64_t m = spec.m();
  const int64_t n = spec.n();
  const int64_t k = spec.k();
  const size_t sums = NarrowDotScratch(m, n, k);
  const bool copies = !b.transposed;
  Kernel kernel;
  kernel.input_layouts = InputLayouts(spec, a, b);
  kernel.scratch_bytes = (sums + static_cast<size_t>(copies ? n * k : 0)) * sizeof(float);
  kernel.run = [=](const KernelArgs& args) {
    auto* scratch = static_cast<float*>(args.scratch);
    const auto* right = args.in<float>(1);
    if (copies) {
      float* copy = scratch + sums;
      for (int64_t j = 0; j < n; ++j) {
        for (int64_t i = 0; i < k; ++i) {
          copy[j * k + i] = right[i * n + j];
        }
      }
      right = copy;
    }
    auto* y = args.out<float>(0);
    NarrowDot(m, n, k, args.in<float>(0), right, y, scratch, spec.threads);
    if (spec.bias) {
      AddBiasAndActivate(y, args.in<float>(2), m, n, spec.relu);
    }
    return OkStatus();
  };
  return kernel;
}

// y = a^T b with few columns (`swapped` false: y column-major) or few rows (true: y row-major).
Kernel MakeNarrowOuter(const MatMulSpec& spec, const Stored& a, const Stored& b, bool swapped) {
  Kernel kernel;
  kernel.input_layouts = {a.layout, b.layout};
  kernel.output_layouts = {swapped ? Layout() : ColumnMajor(spec.y)};
  kernel.run = [swapped, m = spec.m(), n = spec.n(), k = spec.k(),
                threads = spec.threads](const KernelArgs& args) {
    if (swapped) {
      NarrowOuter(n, m, k, args.in<float>(1), args.in<float>(0), args.out<float>(0), threads);
    } else {
      NarrowOuter(m, n, k, args.in<float>(0), args.in<float>(1), args.out<float>(0), threads);
    }
    return OkStatus();
  };
  return kernel;
}

Kernel MakeFloatKernel(const MatMulSpec& spec) {
  // A longer side of so many elements pays for the other's being narrow.
  constexpr int64_t kLongSide = 32;
  const Stored a = AsItLies(spec.a, spec.a_layout, spec.transpose_a);
  const Stored b = AsItLies(spec.b, spec.b_layout, spec.transpose_b);
  const bool candidate = spec.y.rank() == 2 && VectorWidth() == 8;
  if (candidate && !a.transposed && spec.n() <= kNarrowColumns && spec.k() >= kLongSide) {
    return MakeNarrowDot(spec, a, b);
  }
  if (candidate && a.transposed && !b.transposed && !spec.bias) {
    if (spec.n() <= kNarrowColumns && spec.m() >= kLongSide) {
      return MakeNarrowOuter(spec, a, b, false);
    }
    if (spec.m() <= kNarrowColumns && spec.n() >= kLongSide) {
      return MakeNarrowOuter(spec, a, b, true);
    }
  }
  return MakeGemmKernel(spec, a, b);
}

// The descriptor of [..., rows, columns] whose last two dimensions are stored swapped if
// `transposed`; padded with ones in front to `rank`.
dnnl::memory::desc OperandDesc(const Shape& shape, int rank, bool transposed,
                               dnnl::memory::data_type type) {
  const auto size = static_cast<size_t>(rank);
  dnnl::memory::dims dims(size, 1);
  dnnl::memory::dims strides(size, 1);
  int64_t stride = 1;
  for (int i = rank - 1; i >= 0; --i) {
    const int axis = i - (rank - shape.rank());
    dims[static_cast<size_t>(i)] = axis < 0 ? 1 : shape[axis];
    strides[static_cast<size_t>(i)] = stride;
    stride *= dims[static_cast<size_t>(i)];
  }
  if (transposed) {
    std::swap(dims[size - 1], dims[size - 2]);
    std::swap(strides[size - 1], strides[size - 2]);
  }
  return {dims, type, strides};
}

// For bfloat16 where the processor multiplies it; the bias is bfloat16 too.
Result<Kernel> MakePrimitiveKernel(const MatMulSpec& spec) {
  LS_ASSIGN_OR_RETURN(const auto type, ToDataType(spec.dtype));
  return Guarded([&]() -> Result<Kernel> {
    const OnednnThreads threads(spec.threads);
    const dnnl::engine engine = CpuEngine();
    const int rank = spec.y.rank();
    const auto a = OperandDesc(spec.a, rank, spec.transpose_a, type);
    const auto b = OperandDesc(spec.b, rank, spec.transpose_b, type);
    const auto y = OperandDesc(spec.y, rank, false, type);
    const auto bias = OperandDesc(Shape{spec.n()}, rank, false, type);
    dnnl::primitive_attr attr = UserScratchAttr();
    if (spec.relu) {
      dnnl::post_ops ops;
      ops.append_eltwise(1.0F, dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
      attr.set_post_ops(ops);
    }
    const auto desc = spec.bias ? dnnl::matmul::desc(a, b, bias, y) : dnnl::matmul::desc(a, b, y);
    const dnnl::matmul::primitive_desc primitive(desc, attr, engine);
    if (IsReferenceImplementation(primitive.impl_info_str())) {
      return Unimplemented(fmt::format("MatMul in {} has no fast implementation on this machine",
                                       DTypeName(spec.dtype)));
    }
    std::vector<OnednnCall::Arg> args = {
        {DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, y}};
    if (spec.bias) {
      args.push_back({DNNL_ARG_BIAS, bias});
    }
    const OnednnCall call(engine, dnnl::matmul(primitive), args, primitive.scratchpad_desc(),
                          spec.threads);
    Kernel kernel;
    kernel.scratch_bytes = call.scratch_bytes();
    kernel.run = [call, with_bias = spec.bias](const KernelArgs& run) {
      return with_bias ? call.Run({run.inputs[0], run.inputs[1], run.outputs[0], run.inputs[2]},
                                  run.scratch)
                       : call.Run({run.inputs[0], run.inputs[1], run.outputs[0]}, run.scratch);
    };
    return kernel;
  });
}

// Without terms to add up: zeros, or the bias alone.
Kernel MakeEmptySumKernel(const MatMulSpec& spec) {
  Kernel kernel;
  const int64_t count = spec.y.num_elements();
  kernel.run = [spec, count](const KernelArgs& args) {
    std::fill_n(args.out<float>(0), count, 0.0F);
    if (spec.bias && count > 0) {
      AddBiasAndActivate(args.out<float>(0), args.in<float>(2), spec.m(), spec.n(), spec.relu);
    }
    return OkStatus();
  };
  return kernel;
}

}  // namespace

Result<Kernel> MakeMatMulKernel(const MatMulSpec& spec) {
  if (spec.dtype == DType::kFloat32) {
    return spec.k() == 0 || spec.y.num_elements() == 0 ? MakeEmptySumKernel(spec)
                                                       : MakeFloatKernel(spec);
  }
  if (spec.dtype == DType::kBFloat16 && spec.k() > 0 && spec.y.num_elements() > 0) {
    return MakePrimitiveKernel(spec);
  }
  return Unimplemented(fmt::format("MatMul has no kernel for {}", DTypeName(spec.dtype)));
}

}  // namespace lockstep::op::internal
