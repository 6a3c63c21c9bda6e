// The bridge to oneDNN: layouts as memory descriptors and back, and primitives that run with fixed
// arguments. oneDNN has its own order of logical dimensions (N, C, H, W for images; O, I, H, W for
// filters); a DimOrder lists for each of them the dimension of our tensor that it is.
//
// Exceptions of oneDNN do not leave this fence: everything that may throw runs inside Guarded.
#pragma once

#include <omp.h>

#include <dnnl.hpp>
#include <initializer_list>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/base/result.h"
#include "lockstep/tensor/layout.h"

namespace lockstep::op::internal {

using DimOrder = std::span<const int>;

// The tensor's own order, whatever its rank.
inline constexpr int kSameOrderDims[] = {0, 1, 2, 3, 4, 5, 6, 7};
inline constexpr DimOrder kSameOrder{kSameOrderDims};
inline constexpr int kNhwcDims[] = {0, 3, 1, 2};
inline constexpr DimOrder kNhwcOrder{kNhwcDims};
inline constexpr int kHwioDims[] = {3, 2, 0, 1};
inline constexpr DimOrder kHwioOrder{kHwioDims};

// float32, bfloat16, int32 and uint8; UNIMPLEMENTED for the others.
Result<dnnl::memory::data_type> ToDataType(DType dtype);

dnnl::memory::dims ToDims(const Shape& shape, DimOrder order);

dnnl::memory::desc ToDesc(const Shape& shape, dnnl::memory::data_type type, const Layout& layout,
                          DimOrder order = kSameOrder);

// A description that leaves the layout to the primitive.
dnnl::memory::desc AnyDesc(const Shape& shape, dnnl::memory::data_type type,
                           DimOrder order = kSameOrder);

// None if a Layout cannot express it.
std::optional<Layout> ToLayout(const Shape& shape, const dnnl::memory::desc& desc,
                               DimOrder order = kSameOrder);

Status FromDnnlError(const dnnl::error& error);

// Calls `body` (which returns a Status or a Result) and turns exceptions into a Status.
template <class Body>
auto Guarded(Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const dnnl::error& error) {
    return FromDnnlError(error);
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("out of memory in oneDNN");
  }
}

// Sets the number of threads that oneDNN uses when called from this thread. Primitives must be made
// and run under the same number.
class OnednnThreads {
 public:
  explicit OnednnThreads(int threads) : saved_(omp_get_max_threads()), changed_(saved_ != threads) {
    if (changed_) {
      omp_set_num_threads(threads);
    }
  }

  OnednnThreads(const OnednnThreads&) = delete;
  OnednnThreads& operator=(const OnednnThreads&) = delete;

  ~OnednnThreads() {
    if (changed_) {
      omp_set_num_threads(saved_);
    }
  }

 private:
  int saved_;
  bool changed_;
};

// Primitive attributes that leave scratch memory to the caller.
dnnl::primitive_attr UserScratchAttr();

// A primitive with its memory objects. Copies share them, so that it fits into a std::function. Not
// thread-safe.
class OnednnCall {
 public:
  struct Arg {
    int id;  // DNNL_ARG_SRC...
    dnnl::memory::desc desc;
  };

  // The primitive must have been made with UserScratchAttr; `scratch` is its scratchpad_desc().
  // May throw.
  OnednnCall(const dnnl::engine& engine, dnnl::primitive primitive, const std::vector<Arg>& args,
             const dnnl::memory::desc& scratch, int threads);

  // One pointer for each argument, in their order.
  Status Run(std::initializer_list<const void*> data, void* scratch) const;

  size_t scratch_bytes() const { return state_->scratch_bytes; }

 private:
  struct State {
    dnnl::engine engine;
    dnnl::stream stream;
    dnnl::primitive primitive;
    std::vector<dnnl::memory> memories;
    std::vector<const void*> pointers;
    std::vector<dnnl_exec_arg_t> args;
    bool has_scratch = false;
    size_t scratch_bytes = 0;
    int threads = 1;
  };

  std::shared_ptr<State> state_;
};

dnnl::engine CpuEngine();

// Floats in the vectors that oneDNN uses on this machine: 16 with AVX-512, else 8.
int64_t VectorWidth();

// True for implementations that are plain loops meant as a reference.
bool IsReferenceImplementation(const char* impl_info);

}  // namespace lockstep::op::internal
