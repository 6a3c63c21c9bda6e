// The kernel interface: how an op tells a plan what it will do on a device, once shapes are known.
//
// A plan asks for a kernel with the layouts in which the inputs exist; the op answers with the
// layouts that it wants and makes, the memory it needs, and a function that runs with fixed
// buffers. The plan reorders an input only where wanted and existing layouts differ. A kernel must
// not allocate when it runs, must be deterministic, and must write every element of its outputs. It
// may be called by one thread at a time only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "lockstep/base/status.h"
#include "lockstep/graph/node.h"
#include "lockstep/tensor/layout.h"

namespace lockstep {

// What random kernels and counters may depend on besides their inputs (contract C1).
struct StepInfo {
  uint64_t seed = 0;
  int64_t step = 0;
  int32_t replica = 0;
};

struct KernelArgs {
  // One pointer for each input and output in the layouts agreed on; never null, even for empty
  // tensors. An input that is a variable points to its storage.
  void* const* inputs;
  void* const* outputs;
  // scratch_bytes of memory aligned to 64 bytes, contents undefined.
  void* scratch;
  const StepInfo* step;

  template <class T>
  const T* in(int i) const {
    return static_cast<const T*>(inputs[i]);
  }

  template <class T>
  T* variable(int i) const {
    return static_cast<T*>(inputs[i]);
  }

  template <class T>
  T* out(int i) const {
    return static_cast<T*>(outputs[i]);
  }
};

struct TensorDesc {
  DType dtype = DType::kFloat32;
  Shape shape;
  Layout layout;
  // An input whose layout the kernel may choose without cost: a variable that no kernel has settled
  // yet.
  bool flexible = false;

  size_t bytes() const { return layout.Bytes(shape, dtype); }
};

struct KernelRequest {
  const Node& node;
  // Types and shapes are concrete here (the node's own may leave dimensions open).
  std::span<const TensorDesc> inputs;
  // The layouts are not set: they are the kernel's answer.
  std::span<const TensorDesc> outputs;
  // Threads that the device gives to one kernel.
  int threads = 1;
};

struct Kernel {
  static constexpr int kNone = -1;

  // Empty means plain for all. Inputs listed in OpDef::shape_only_inputs are not bound and have no
  // layout.
  std::vector<Layout> input_layouts;
  std::vector<Layout> output_layouts;
  size_t scratch_bytes = 0;
  // For each output the input whose buffer it may take over if nobody needs that input afterwards
  // (same bytes, and the kernel reads each element before it writes the same one). Empty or kNone:
  // none.
  std::vector<int> in_place;
  // For each output the input whose storage it simply is: views such as Reshape, and writes to
  // variables.
  std::vector<int> alias;
  // Empty if there is nothing to do, as for views.
  std::function<Status(const KernelArgs&)> run;
};

}  // namespace lockstep
