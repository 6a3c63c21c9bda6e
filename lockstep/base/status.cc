#include "lockstep/base/status.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace lockstep {
namespace {

constexpr std::array<std::string_view, 17> kCodeNames = {
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
};

}  // namespace

namespace internal {

void CheckFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: internal error: check failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace internal

std::string_view StatusCodeName(StatusCode code) {
  const auto index = static_cast<size_t>(code);
  return index < kCodeNames.size() ? kCodeNames[index] : "UNKNOWN";
}

Status::Status(StatusCode code, std::string message) {
  if (code != StatusCode::kOk) {
    rep_ = std::make_shared<const Rep>(Rep{code, std::move(message), {}});
  }
}

const std::string& Status::message() const {
  static const std::string empty;
  return rep_ == nullptr ? empty : rep_->message;
}

const std::vector<std::string>& Status::context() const {
  static const std::vector<std::string> empty;
  return rep_ == nullptr ? empty : rep_->context;
}

Status Status::With(std::string frame) const {
  if (ok()) {
    return *this;
  }
  Rep rep = *rep_;
  rep.context.push_back(std::move(frame));
  Status result;
  result.rep_ = std::make_shared<const Rep>(std::move(rep));
  return result;
}

std::string Status::ToString() const {
  if (ok()) {
    return "OK";
  }
  std::string text = fmt::format("{}: {}", StatusCodeName(code()), message());
  if (!rep_->context.empty()) {
    text += fmt::format(" [{}]", fmt::join(rep_->context, "; "));
  }
  return text;
}

Status Cancelled(std::string message) {
  return {StatusCode::kCancelled, std::move(message)};
}

Status Unknown(std::string message) {
  return {StatusCode::kUnknown, std::move(message)};
}

Status InvalidArgument(std::string message) {
  return {StatusCode::kInvalidArgument, std::move(message)};
}

Status DeadlineExceeded(std::string message) {
  return {StatusCode::kDeadlineExceeded, std::move(message)};
}

Status NotFound(std::string message) {
  return {StatusCode::kNotFound, std::move(message)};
}

Status AlreadyExists(std::string message) {
  return {StatusCode::kAlreadyExists, std::move(message)};
}

Status PermissionDenied(std::string message) {
  return {StatusCode::kPermissionDenied, std::move(message)};
}

Status ResourceExhausted(std::string message) {
  return {StatusCode::kResourceExhausted, std::move(message)};
}

Status FailedPrecondition(std::string message) {
  return {StatusCode::kFailedPrecondition, std::move(message)};
}

Status Aborted(std::string message) {
  return {StatusCode::kAborted, std::move(message)};
}

Status OutOfRange(std::string message) {
  return {StatusCode::kOutOfRange, std::move(message)};
}

Status Unimplemented(std::string message) {
  return {StatusCode::kUnimplemented, std::move(message)};
}

Status Internal(std::string message) {
  return {StatusCode::kInternal, std::move(message)};
}

Status Unavailable(std::string message) {
  return {StatusCode::kUnavailable, std::move(message)};
}

Status DataLoss(std::string message) {
  return {StatusCode::kDataLoss, std::move(message)};
}

Status Unauthenticated(std::string message) {
  return {StatusCode::kUnauthenticated, std::move(message)};
}

}  // namespace lockstep
