#include "lockstep/exec/internal/copy_layout.h"

#include <memory>

#include "lockstep/op/reorder.h"
#include "lockstep/tensor/buffer.h"

namespace lockstep::exec {

Status CopyLayout(const Shape& shape, DType dtype, const Layout& from, const void* source,
                  const Layout& to, void* target) {
  LS_ASSIGN_OR_RETURN(const op::Reorder reorder, op::MakeReorder(shape, dtype, from, dtype, to));
  LS_ASSIGN_OR_RETURN(const std::shared_ptr<Buffer> scratch,
                      Buffer::Allocate(reorder.scratch_bytes));
  return reorder.run(source, target, scratch->data());
}

}  // namespace lockstep::exec
