#include "lockstep/base/log.h"

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/ostream_sink.h>

#include <string>

#include "lockstep/base/quote.h"

namespace lockstep {
namespace {

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

}  // namespace

struct Log::Sink {
  explicit Sink(std::ostream& stream)
      : logger("", std::make_shared<spdlog::sinks::ostream_sink_mt>(stream, /*force_flush=*/true)) {
    logger.set_formatter(std::make_unique<spdlog::pattern_formatter>(
        "%Y-%m-%dT%H:%M:%S.%eZ %L %v", spdlog::pattern_time_type::utc));
    // The level was checked before; a failure to log must not disturb what is logged.
    logger.set_level(spdlog::level::trace);
    logger.set_error_handler([](const std::string&) {});
  }

  spdlog::logger logger;
};

Log::Log(std::ostream& stream, LogLevel level)
    : level_(level), sink_(std::make_unique<Sink>(stream)) {}

Log::~Log() = default;

void Log::Write(LogLevel level, std::string_view message) {
  if (!enabled(level)) {
    return;
  }
  if (HasControlCharacters(message)) {
    sink_->logger.log(ToSpdlog(level), EscapeControls(message));
  } else {
    sink_->logger.log(ToSpdlog(level), message);
  }
}

}  // namespace lockstep
