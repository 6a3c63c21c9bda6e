// Where in the caller's program something was made, so that errors found later can name the line.
#pragma once

namespace lockstep {

struct SourceLocation {
  const char* file = "";
  int line = 0;

  // As a default argument: the location of the call.
  static constexpr SourceLocation Current(const char* file = __builtin_FILE(),
                                          int line = __builtin_LINE()) {
    return {file, line};
  }
};

}  // namespace lockstep
