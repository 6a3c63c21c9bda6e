#include "lockstep/observe/progress.h"

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <utility>

#include "lockstep/observe/internal/progress_text.h"

namespace lockstep::observe {
namespace {

class LineProgress : public Progress {
 public:
  LineProgress(std::ostream& stream, const LineOptions& options, ProgressClock clock)
      : stream_(stream), options_(options), clock_(std::move(clock)) {}

  void OnStep(const StepReport& report) override {
    const std::chrono::steady_clock::time_point now = clock_();
    rate_.Add(report.samples, now);
    if (!IsDue(report, now)) {
      return;
    }
    wrote_ = true;
    last_ = now;
    stream_ << Line(report) << std::endl;
  }

  void OnEpochEnd(const EpochReport& report) override {
    stream_ << internal::FormatEpoch(report) << std::endl;
  }

  void OnMessage(std::string_view message) override { stream_ << message << std::endl; }

  void OnEnd() override {}

 private:
  bool IsDue(const StepReport& report, std::chrono::steady_clock::time_point now) const {
    if (options_.every_steps > 0) {
      return report.run_step % options_.every_steps == 0;
    }
    return !wrote_ || std::chrono::duration<double>(now - last_).count() >= options_.every_seconds;
  }

  std::string Line(const StepReport& report) const {
    std::string line = fmt::format("{} {}: loss {}",
                                   internal::FormatCount("epoch", report.epoch + 1, report.epochs),
                                   internal::FormatCount("step", report.step, report.steps),
                                   internal::FormatMetric(report.loss));
    if (!std::isnan(report.accuracy)) {
      line += ", accuracy " + internal::FormatMetric(report.accuracy);
    }
    for (const std::string& part : {internal::FormatRate(rate_.samples_per_second()),
                                    internal::FormatEta(report, rate_.steps_per_second())}) {
      if (!part.empty()) {
        line += ", " + part;
      }
    }
    return line;
  }

  std::ostream& stream_;
  LineOptions options_;
  ProgressClock clock_;
  internal::RateMeter rate_;
  bool wrote_ = false;
  std::chrono::steady_clock::time_point last_;
};

class QuietProgress : public Progress {
 public:
  void OnStep(const StepReport& /*report*/) override {}

  void OnEpochEnd(const EpochReport& /*report*/) override {}

  void OnMessage(std::string_view /*message*/) override {}

  void OnEnd() override {}
};

}  // namespace

ProgressClock SteadyClock() {
  return [] { return std::chrono::steady_clock::now(); };
}

std::unique_ptr<Progress> MakeLineProgress(std::ostream& stream, const LineOptions& options,
                                           ProgressClock clock) {
  return std::make_unique<LineProgress>(stream, options, std::move(clock));
}

std::unique_ptr<Progress> MakeQuietProgress() {
  return std::make_unique<QuietProgress>();
}

}  // namespace lockstep::observe
