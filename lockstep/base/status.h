// Status: the outcome of an operation that can fail. The codes are the 17 canonical RPC codes, so
// that a Status crosses processes without loss; docs/errors.md says for each who may retry what.
//
//   Status Load(const std::string& path) {
//     if (bad) {
//       return InvalidArgument(fmt::format("{}: ...", path));
//     }
//     return OkStatus();
//   }
//
//   // Adds where it happened; the innermost frame comes first.
//   return status.With("rank 3, op Softmax_7");
//
// A Status is a cheap value: OK is a null pointer, copies share the message. Thread-safe as a const
// value.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/macros.h"

namespace lockstep {

enum class StatusCode : int {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

// "INVALID_ARGUMENT" and so on.
std::string_view StatusCodeName(StatusCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message);

  bool ok() const { return rep_ == nullptr; }

  StatusCode code() const { return rep_ == nullptr ? StatusCode::kOk : rep_->code; }

  const std::string& message() const;
  // Frames added by With(), innermost first.
  const std::vector<std::string>& context() const;

  // The same error with one more frame of context. An OK status stays OK.
  Status With(std::string frame) const;

  // "INVALID_ARGUMENT: message [frame; frame]", or "OK".
  std::string ToString() const;

 private:
  struct Rep {
    StatusCode code;
    std::string message;
    std::vector<std::string> context;
  };

  std::shared_ptr<const Rep> rep_;
};

inline Status OkStatus() {
  return Status();
}

Status Cancelled(std::string message);
Status Unknown(std::string message);
Status InvalidArgument(std::string message);
Status DeadlineExceeded(std::string message);
Status NotFound(std::string message);
Status AlreadyExists(std::string message);
Status PermissionDenied(std::string message);
Status ResourceExhausted(std::string message);
Status FailedPrecondition(std::string message);
Status Aborted(std::string message);
Status OutOfRange(std::string message);
Status Unimplemented(std::string message);
Status Internal(std::string message);
Status Unavailable(std::string message);
Status DataLoss(std::string message);
Status Unauthenticated(std::string message);

}  // namespace lockstep
