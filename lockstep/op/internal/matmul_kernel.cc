#include "lockstep/op/internal/matmul_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

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

Kernel MakeGemmKernel(const MatMulSpec& spec) {
  Kernel kernel;
  kernel.run = [spec, a_offsets = BatchOffsets(spec.a, spec.y),
                b_offsets = BatchOffsets(spec.b, spec.y)](const KernelArgs& args) -> Status {
    const OnednnThreads threads(spec.threads);
    const int64_t m = spec.m();
    const int64_t n = spec.n();
    const int64_t k = spec.k();
    for (size_t i = 0; i < a_offsets.size(); ++i) {
      float* y = args.out<float>(0) + static_cast<int64_t>(i) * m * n;
      const dnnl_status_t status =
          dnnl_sgemm(spec.transpose_a ? 'T' : 'N', spec.transpose_b ? 'T' : 'N', m, n, k, 1.0F,
                     args.in<float>(0) + a_offsets[i], spec.transpose_a ? m : k,
                     args.in<float>(1) + b_offsets[i], spec.transpose_b ? k : n, 0.0F, y, n);
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
                                                       : MakeGemmKernel(spec);
  }
  if (spec.dtype == DType::kBFloat16 && spec.k() > 0 && spec.y.num_elements() > 0) {
    return MakePrimitiveKernel(spec);
  }
  return Unimplemented(fmt::format("MatMul has no kernel for {}", DTypeName(spec.dtype)));
}

}  // namespace lockstep::op::internal
