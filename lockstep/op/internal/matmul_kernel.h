// The CPU kernels behind MatMul and FusedMatMul.
#pragma once

#include "lockstep/graph/kernel.h"

namespace lockstep::op::internal {

struct MatMulSpec {
  Shape a;
  Shape b;
  Shape y;
  bool transpose_a = false;
  bool transpose_b = false;
  bool bias = false;  // input 2, [N]
  bool relu = false;
  DType dtype = DType::kFloat32;
  int threads = 1;
  // Where the operands lie at present, and whether b may be laid out anew without cost.
  Layout a_layout;
  Layout b_layout;
  bool b_flexible = false;

  int64_t m() const { return y.dim(-2); }

  int64_t n() const { return y.dim(-1); }

  int64_t k() const { return a.dim(transpose_a ? -2 : -1); }
};

// Matrices are taken row-major or column-major. A variable b with few columns is asked for in
// column-major, and its gradient a^T b made so. UNIMPLEMENTED for types without a fast
// implementation on this machine.
Result<Kernel> MakeMatMulKernel(const MatMulSpec& spec);

}  // namespace lockstep::op::internal
