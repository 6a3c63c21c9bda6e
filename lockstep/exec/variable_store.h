// VariableStore: the variables of a process by name. They outlive sessions, and sessions may share
// a store. A variable's memory is kept in the layout that plans settled on; Read and Write convert
// from and to plain.
//
// Thread-safety: lookup and creation are safe. The contents of a variable are guarded by its users:
// plans that run at the same time must not write what another reads (the session and the strategies
// see to that).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/mutex.h"
#include "lockstep/tensor/layout.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::exec {

struct Variable {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  Layout layout;
  // A plan has chosen the layout; later plans follow it.
  bool settled = false;
  bool initialized = false;
  std::shared_ptr<Buffer> buffer;
};

class VariableStore {
 public:
  // The variable `name`, created uninitialised if there is none. An existing one of another type or
  // shape is an error.
  Result<Variable*> GetOrCreate(std::string_view name, DType dtype, const Shape& shape);

  // Null if there is none.
  Variable* Find(std::string_view name) const;

  // In order of name.
  std::vector<Variable*> All() const;

  // A plain copy. An unknown or uninitialised variable is an error.
  Result<Tensor> Read(std::string_view name) const;
  // Copies a plain tensor of the right type and shape in.
  Status Write(std::string_view name, const Tensor& value);

  // Held while a plan is compiled and settles layouts.
  Mutex& settle_mutex() LS_RETURN_CAPABILITY(settle_mu_) { return settle_mu_; }

  // Forgets all variables. No plan may use them any more.
  void Clear();

 private:
  Mutex settle_mu_;
  mutable Mutex mu_;
  std::map<std::string, std::unique_ptr<Variable>, std::less<>> variables_ LS_GUARDED_BY(mu_);
};

// Moves a variable into another layout, keeping its contents.
Status Relayout(Variable& variable, const Layout& layout);

}  // namespace lockstep::exec
