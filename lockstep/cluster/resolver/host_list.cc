#include "lockstep/cluster/resolver/host_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "lockstep/base/quote.h"
#include "lockstep/cluster/internal/document.h"
#include "lockstep/cluster/spec/task_id.h"

namespace lockstep::cluster {
namespace {

constexpr size_t kMaxText = size_t{1} << 20;
constexpr size_t kMaxHost = 255;
constexpr size_t kMaxDigits = 18;

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

bool IsSpace(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// What a name consists of besides brackets: a label's characters and dots.
bool IsNameCharacter(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_' ||
         c == '.';
}

class Reader {
 public:
  Reader(std::string_view what, std::string_view text) : what_(what), text_(text) {}

  bool AtEnd() const { return offset_ == text_.size(); }

  char Peek() const { return AtEnd() ? '\0' : text_[offset_]; }

  bool Take(char c) {
    if (AtEnd() || text_[offset_] != c) {
      return false;
    }
    ++offset_;
    return true;
  }

  void SkipSpace() {
    while (!AtEnd() && IsSpace(text_[offset_])) {
      ++offset_;
    }
  }

  template <class Predicate>
  std::string_view TakeWhile(Predicate predicate) {
    const size_t begin = offset_;
    while (!AtEnd() && predicate(text_[offset_])) {
      ++offset_;
    }
    return text_.substr(begin, offset_ - begin);
  }

  size_t offset() const { return offset_; }

  Status FaultAtByte(size_t offset, std::string_view message) const {
    return InvalidArgument(
        fmt::format("{} {}: byte {}: {}", what_, Quoted(text_), offset, message));
  }

  Status Expected(std::string_view expected) const {
    return FaultAtByte(offset_,
                       fmt::format("expected {}, found {}", expected,
                                   AtEnd() ? "the end" : Quoted(text_.substr(offset_, 1))));
  }

 private:
  std::string_view what_;
  std::string_view text_;
  size_t offset_ = 0;
};

struct Range {
  int64_t low = 0;
  int64_t high = 0;
  size_t width = 0;

  int64_t size() const { return high - low + 1; }
};

// A literal part, or a bracket.
struct Part {
  std::string literal;
  std::vector<Range> ranges;
};

Result<int64_t> Number(Reader& reader, std::string_view* digits = nullptr) {
  const size_t begin = reader.offset();
  const std::string_view text = reader.TakeWhile(IsDigit);
  if (text.empty()) {
    return reader.Expected("a number");
  }
  if (text.size() > kMaxDigits) {
    return reader.FaultAtByte(begin, fmt::format("a number of {} digits", text.size()));
  }
  int64_t value = 0;
  for (const char c : text) {
    value = value * 10 + (c - '0');
  }
  if (digits != nullptr) {
    *digits = text;
  }
  return value;
}

Result<Range> ReadRange(Reader& reader) {
  const size_t begin = reader.offset();
  Range range;
  std::string_view low;
  LS_ASSIGN_OR_RETURN(range.low, Number(reader, &low));
  range.high = range.low;
  range.width = low.size();
  if (!reader.Take('-')) {
    return range;
  }
  std::string_view high;
  LS_ASSIGN_OR_RETURN(range.high, Number(reader, &high));
  if (range.high < range.low) {
    return reader.FaultAtByte(begin, fmt::format("the range {}-{} goes backwards", low, high));
  }
  const bool padded = high.size() > 1 && high[0] == '0';
  if (high.size() < low.size() || (padded && high.size() != low.size())) {
    return reader.FaultAtByte(
        begin, fmt::format("the ends of the range {}-{} have different padding", low, high));
  }
  return range;
}

Result<Part> ReadBracket(Reader& reader, int64_t& count) {
  Part part;
  do {
    LS_ASSIGN_OR_RETURN(const Range range, ReadRange(reader));
    part.ranges.push_back(range);
    if (range.size() > kMaxTasks) {
      return reader.FaultAtByte(reader.offset(), fmt::format("a range of {} hosts; at most {} are "
                                                             "allowed in all",
                                                             range.size(), kMaxTasks));
    }
    count += range.size();
  } while (reader.Take(','));
  if (!reader.Take(']')) {
    return reader.Expected("',', '-' or ']'");
  }
  return part;
}

// One name with its brackets; `count` is how many hosts it stands for.
Result<std::vector<Part>> ReadName(Reader& reader, int64_t& count) {
  std::vector<Part> parts;
  count = 1;
  while (true) {
    const std::string_view literal = reader.TakeWhile(IsNameCharacter);
    if (!literal.empty()) {
      parts.push_back({std::string(literal), {}});
    }
    const size_t begin = reader.offset();
    if (!reader.Take('[')) {
      break;
    }
    int64_t size = 0;
    LS_ASSIGN_OR_RETURN(Part part, ReadBracket(reader, size));
    count *= size;
    if (count > kMaxTasks) {
      return reader.FaultAtByte(begin,
                                fmt::format("this stands for more than {} hosts", kMaxTasks));
    }
    parts.push_back(std::move(part));
  }
  if (parts.empty()) {
    return reader.Expected("a host name");
  }
  return parts;
}

void Expand(const std::vector<Part>& parts, size_t at, std::string prefix,
            std::vector<std::string>& hosts) {
  if (at == parts.size()) {
    hosts.push_back(std::move(prefix));
    return;
  }
  if (parts[at].ranges.empty()) {
    Expand(parts, at + 1, prefix + parts[at].literal, hosts);
    return;
  }
  for (const Range& range : parts[at].ranges) {
    for (int64_t i = range.low; i <= range.high; ++i) {
      Expand(parts, at + 1, fmt::format("{}{:0{}}", prefix, i, range.width), hosts);
    }
  }
}

size_t LengthOf(const std::vector<Part>& parts) {
  size_t length = 0;
  for (const Part& part : parts) {
    length += part.ranges.empty() ? part.literal.size() : kMaxDigits;
  }
  return length;
}

Status CheckSize(std::string_view what, std::string_view text) {
  return text.size() <= kMaxText
             ? OkStatus()
             : InvalidArgument(fmt::format("{}: {} bytes are more than the {} that are allowed",
                                           what, text.size(), kMaxText));
}

}  // namespace

Result<std::vector<std::string>> ExpandHostList(std::string_view text) {
  LS_TRY(CheckSize("host list", text));
  Reader reader("host list", text);
  std::vector<std::string> hosts;
  do {
    reader.SkipSpace();
    const size_t begin = reader.offset();
    int64_t count = 0;
    LS_ASSIGN_OR_RETURN(const std::vector<Part> parts, ReadName(reader, count));
    if (LengthOf(parts) > kMaxHost + kMaxDigits) {
      return reader.FaultAtByte(begin, "a host name that is too long");
    }
    if (hosts.size() + static_cast<size_t>(count) > kMaxTasks) {
      return reader.FaultAtByte(begin, fmt::format("the list has more than {} hosts", kMaxTasks));
    }
    Expand(parts, 0, "", hosts);
    reader.SkipSpace();
  } while (reader.Take(','));
  if (!reader.AtEnd()) {
    return reader.Expected("',' or the end");
  }
  return hosts;
}

Result<std::vector<int>> ExpandCounts(std::string_view text) {
  LS_TRY(CheckSize("counts", text));
  Reader reader("counts", text);
  std::vector<int> counts;
  do {
    reader.SkipSpace();
    const size_t begin = reader.offset();
    LS_ASSIGN_OR_RETURN(const int64_t value, Number(reader));
    int64_t repeat = 1;
    if (reader.Take('(')) {
      if (!reader.Take('x')) {
        return reader.Expected("'x'");
      }
      LS_ASSIGN_OR_RETURN(repeat, Number(reader));
      if (!reader.Take(')')) {
        return reader.Expected("')'");
      }
    }
    if (value > kMaxTasks || repeat < 1 ||
        repeat > kMaxTasks - static_cast<int64_t>(counts.size())) {
      return reader.FaultAtByte(begin,
                                fmt::format("out of range, allowed are counts of 0 to {} for 1 to "
                                            "{} nodes in all",
                                            kMaxTasks, kMaxTasks));
    }
    counts.insert(counts.end(), static_cast<size_t>(repeat), static_cast<int>(value));
    reader.SkipSpace();
  } while (reader.Take(','));
  if (!reader.AtEnd()) {
    return reader.Expected("',', '(' or the end");
  }
  return counts;
}

}  // namespace lockstep::cluster
