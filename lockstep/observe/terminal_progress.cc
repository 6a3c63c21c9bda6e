#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/observe/internal/progress_text.h"
#include "lockstep/observe/progress.h"

namespace lockstep::observe {
namespace {

constexpr std::chrono::milliseconds kRedrawInterval(100);
constexpr size_t kNarrowestBar = 10;
constexpr size_t kWidestBar = 40;
constexpr std::string_view kGap = "  ";

// One part of the line. Where the terminal is too narrow for all, the lowest ranks go first.
struct Field {
  std::string text;
  int rank;
};

// "[=======>      ]" of `width` columns.
std::string Bar(int64_t step, int64_t steps, size_t width) {
  const size_t inner = width - 2;
  const double share = std::clamp(static_cast<double>(step) / static_cast<double>(steps), 0.0, 1.0);
  const auto filled = static_cast<size_t>(share * static_cast<double>(inner));
  std::string bar(filled, '=');
  if (filled < inner) {
    bar += '>';
  }
  bar.resize(inner, ' ');
  return "[" + bar + "]";
}

size_t Length(const std::vector<Field>& fields) {
  size_t length = 0;
  for (const Field& field : fields) {
    length += field.text.size() + (length > 0 ? kGap.size() : 0);
  }
  return length;
}

std::string Join(const std::vector<Field>& fields) {
  std::string text;
  for (const Field& field : fields) {
    text += (text.empty() ? "" : std::string(kGap)) + field.text;
  }
  return text;
}

std::vector<Field> Fields(const StepReport& report, const internal::RateMeter& rate) {
  std::vector<Field> fields = {{internal::FormatCount("epoch", report.epoch + 1, report.epochs), 3},
                               {internal::FormatCount("step", report.step, report.steps), 5},
                               {"loss " + internal::FormatMetric(report.loss), 6}};
  if (!std::isnan(report.accuracy)) {
    fields.push_back({"acc " + internal::FormatMetric(report.accuracy), 2});
  }
  fields.push_back({internal::FormatRate(rate.samples_per_second()), 1});
  fields.push_back({internal::FormatEta(report, rate.steps_per_second()), 4});
  std::erase_if(fields, [](const Field& field) { return field.text.empty(); });
  return fields;
}

// At most `columns` wide.
std::string Line(const StepReport& report, const internal::RateMeter& rate, size_t columns) {
  std::vector<Field> fields = Fields(report, rate);
  while (fields.size() > 1 && Length(fields) > columns) {
    fields.erase(std::min_element(fields.begin(), fields.end(),
                                  [](const Field& a, const Field& b) { return a.rank < b.rank; }));
  }
  const size_t used = Length(fields) + kGap.size();
  if (report.steps > 0 && fields.size() > 2 && used + kNarrowestBar <= columns) {
    const size_t width = std::min(kWidestBar, columns - used);
    fields.insert(fields.begin() + 2, {Bar(report.step, report.steps, width), 0});
  }
  return Join(fields).substr(0, columns);
}

class TerminalProgress : public Progress {
 public:
  TerminalProgress(std::ostream& stream, std::function<int()> width, ProgressClock clock)
      : stream_(stream), width_(std::move(width)), clock_(std::move(clock)) {}

  void OnStep(const StepReport& report) override {
    const std::chrono::steady_clock::time_point now = clock_();
    rate_.Add(report.samples, now);
    report_ = report;
    // The drawing is skipped and not postponed: the end of the epoch draws what is last.
    if (!drawn_.has_value() || now - *drawn_ >= kRedrawInterval) {
      drawn_ = now;
      Draw();
    }
  }

  void OnEpochEnd(const EpochReport& report) override {
    WriteLine(internal::FormatEpoch(report));
    drawn_.reset();
  }

  void OnMessage(std::string_view message) override {
    const bool was_drawn = drawn_columns_ > 0;
    WriteLine(message);
    if (was_drawn) {
      Draw();
    }
  }

  void OnEnd() override {
    if (drawn_columns_ > 0) {
      Draw();
      stream_ << std::endl;
      drawn_columns_ = 0;
    }
  }

 private:
  void Draw() {
    constexpr int kUsualWidth = 80;
    const int width = width_();
    // The last column stays free: many terminals wrap when it is written.
    const auto columns = static_cast<size_t>(std::max(width > 0 ? width : kUsualWidth, 2) - 1);
    std::string line = Line(report_, rate_, columns);
    const size_t length = line.size();
    // Blanks erase what is left of a longer line; after a resize no more than fits.
    line.resize(std::max(length, std::min(drawn_columns_, columns)), ' ');
    drawn_columns_ = length;
    stream_ << '\r' << line << std::flush;
  }

  // Replaces the bar by a line that stays.
  void WriteLine(std::string_view text) {
    std::string line(text);
    line.resize(std::max(line.size(), drawn_columns_), ' ');
    stream_ << (drawn_columns_ > 0 ? "\r" : "") << line << std::endl;
    drawn_columns_ = 0;
  }

  std::ostream& stream_;
  std::function<int()> width_;
  ProgressClock clock_;
  internal::RateMeter rate_;
  StepReport report_;
  std::optional<std::chrono::steady_clock::time_point> drawn_;
  // Columns of the bar that is on the last line; 0 if there is none.
  size_t drawn_columns_ = 0;
};

}  // namespace

std::unique_ptr<Progress> MakeTerminalProgress(std::ostream& stream, std::function<int()> width,
                                               ProgressClock clock) {
  return std::make_unique<TerminalProgress>(stream, std::move(width), std::move(clock));
}

}  // namespace lockstep::observe
