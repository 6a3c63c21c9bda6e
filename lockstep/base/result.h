// Result<T>: a value or the Status that says why there is none.
//
//   Result<Tensor> Load(const std::string& path);
//   LS_ASSIGN_OR_RETURN(Tensor images, Load(path));
#pragma once

#include <optional>
#include <utility>

#include "lockstep/base/status.h"

namespace lockstep {

template <class T>
class [[nodiscard]] Result {
 public:
  // Implicit, so that functions return either a value or an error.
  Result(T value) : value_(std::move(value)) {}  // NOLINT(google-explicit-constructor)

  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    LS_CHECK(!status_.ok());
  }

  bool ok() const { return status_.ok(); }

  const Status& status() const& { return status_; }

  Status status() && { return std::move(status_); }

  // Only if ok().
  const T& value() const& {
    LS_CHECK(value_.has_value());
    return *value_;
  }

  T& value() & {
    LS_CHECK(value_.has_value());
    return *value_;
  }

  T value() && {
    LS_CHECK(value_.has_value());
    return std::move(*value_);
  }

  const T& operator*() const& { return value(); }

  T& operator*() & { return value(); }

  const T* operator->() const { return &value(); }

  T* operator->() { return &value(); }

 private:
  Status status_;
  std::optional<T> value_;
};

}  // namespace lockstep
