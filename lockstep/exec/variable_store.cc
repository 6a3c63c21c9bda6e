#include "lockstep/exec/variable_store.h"

#include <fmt/format.h>

#include <cstring>

#include "lockstep/exec/internal/copy_layout.h"

namespace lockstep::exec {

Result<Variable*> VariableStore::GetOrCreate(std::string_view name, DType dtype,
                                             const Shape& shape) {
  const MutexLock lock(mu_);
  const auto it = variables_.find(name);
  if (it != variables_.end()) {
    Variable* found = it->second.get();
    if (found->dtype != dtype || !(found->shape == shape)) {
      return FailedPrecondition(fmt::format("variable '{}' is {} {} here, it was made as {} {}",
                                            name, DTypeName(dtype), shape.ToString(),
                                            DTypeName(found->dtype), found->shape.ToString()));
    }
    return found;
  }
  if (!shape.fully_known()) {
    return InvalidArgument(
        fmt::format("variable '{}' needs a fully known shape, found {}", name, shape.ToString()));
  }
  auto variable = std::make_unique<Variable>();
  variable->name = name;
  variable->dtype = dtype;
  variable->shape = shape;
  LS_ASSIGN_OR_RETURN(variable->buffer, Buffer::Allocate(variable->layout.Bytes(shape, dtype)));
  Variable* result = variable.get();
  variables_.emplace(name, std::move(variable));
  return result;
}

Variable* VariableStore::Find(std::string_view name) const {
  const MutexLock lock(mu_);
  const auto it = variables_.find(name);
  return it == variables_.end() ? nullptr : it->second.get();
}

std::vector<Variable*> VariableStore::All() const {
  const MutexLock lock(mu_);
  std::vector<Variable*> all;
  for (const auto& [name, variable] : variables_) {
    all.push_back(variable.get());
  }
  return all;
}

Result<Tensor> VariableStore::Read(std::string_view name) const {
  const Variable* variable = Find(name);
  if (variable == nullptr) {
    return NotFound(fmt::format("there is no variable '{}'", name));
  }
  if (!variable->initialized) {
    return FailedPrecondition(fmt::format("variable '{}' is not initialised", name));
  }
  LS_ASSIGN_OR_RETURN(Tensor value, Tensor::Allocate(variable->dtype, variable->shape));
  LS_TRY(CopyLayout(variable->shape, variable->dtype, variable->layout, variable->buffer->data(),
                    Layout(), value.data()));
  return value;
}

Status VariableStore::Write(std::string_view name, const Tensor& value) {
  Variable* variable = Find(name);
  if (variable == nullptr) {
    return NotFound(fmt::format("there is no variable '{}'", name));
  }
  if (value.dtype() != variable->dtype || !(value.shape() == variable->shape)) {
    return InvalidArgument(fmt::format("variable '{}' is {} {}, its new value {} {}", name,
                                       DTypeName(variable->dtype), variable->shape.ToString(),
                                       DTypeName(value.dtype()), value.shape().ToString()));
  }
  LS_TRY(CopyLayout(variable->shape, variable->dtype, Layout(), value.data(), variable->layout,
                    variable->buffer->data()));
  variable->initialized = true;
  return OkStatus();
}

void VariableStore::Clear() {
  const MutexLock lock(mu_);
  variables_.clear();
}

Status Relayout(Variable& variable, const Layout& layout) {
  if (variable.layout == layout) {
    return OkStatus();
  }
  LS_ASSIGN_OR_RETURN(std::shared_ptr<Buffer> buffer,
                      Buffer::Allocate(layout.Bytes(variable.shape, variable.dtype)));
  if (variable.initialized) {
    LS_TRY(CopyLayout(variable.shape, variable.dtype, variable.layout, variable.buffer->data(),
                      layout, buffer->data()));
  }
  variable.buffer = std::move(buffer);
  variable.layout = layout;
  return OkStatus();
}

}  // namespace lockstep::exec
