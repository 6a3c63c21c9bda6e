// Log: one line per message to a stream, with time (UTC) and level. There is no global one: who
// wants to log is given a Log& by its caller. Thread-safe. Write failures are dropped.
//
//   Log log(std::cerr, LogLevel::kInfo);
//   log.Warning(fmt::format("rank {} is {} s late", rank, seconds));
//   2026-01-31T12:00:00.123Z W rank 3 is 2 s late
#pragma once

#include <memory>
#include <ostream>
#include <string_view>

namespace lockstep {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

class Log {
 public:
  // Writes messages of at least `level` to `stream`, which must outlive the Log.
  Log(std::ostream& stream, LogLevel level);
  ~Log();

  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  // Line ends and other control characters in `message` are written as \n, \x1b and so on.
  void Write(LogLevel level, std::string_view message);

  void Debug(std::string_view message) { Write(LogLevel::kDebug, message); }

  void Info(std::string_view message) { Write(LogLevel::kInfo, message); }

  void Warning(std::string_view message) { Write(LogLevel::kWarning, message); }

  void Error(std::string_view message) { Write(LogLevel::kError, message); }

  // Would a message of this level be written? For messages that are costly to make.
  bool enabled(LogLevel level) const { return level >= level_; }

 private:
  struct Sink;

  LogLevel level_;
  std::unique_ptr<Sink> sink_;
};

}  // namespace lockstep
