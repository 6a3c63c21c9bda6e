// The project's macros: error propagation and checks of programmer errors.
//
//   LS_TRY(DoIt());                               returns a Status that is not OK from the function
//   LS_ASSIGN_OR_RETURN(auto file, Open(path));   the same for a Result, otherwise binds its value
//   LS_CHECK(index < size);                       aborts; for programmer errors, never for input
#pragma once

namespace lockstep::internal {

[[noreturn]] void CheckFailed(const char* condition, const char* file, int line);

}  // namespace lockstep::internal

#define LS_CONCAT_INNER(a, b) a##b
#define LS_CONCAT(a, b) LS_CONCAT_INNER(a, b)

#define LS_TRY(expr)                           \
  do {                                         \
    ::lockstep::Status ls_try_status = (expr); \
    if (!ls_try_status.ok()) {                 \
      return ls_try_status;                    \
    }                                          \
  } while (false)

#define LS_ASSIGN_OR_RETURN(declaration, expr) \
  LS_ASSIGN_OR_RETURN_IMPL(LS_CONCAT(ls_result_, __LINE__), declaration, expr)

#define LS_ASSIGN_OR_RETURN_IMPL(result, declaration, expr) \
  auto result = (expr);                                     \
  if (!result.ok()) {                                       \
    return std::move(result).status();                      \
  }                                                         \
  declaration = std::move(result).value()

#define LS_CHECK(condition)                                              \
  do {                                                                   \
    if (!(condition)) {                                                  \
      ::lockstep::internal::CheckFailed(#condition, __FILE__, __LINE__); \
    }                                                                    \
  } while (false)
