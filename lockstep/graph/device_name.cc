#include "lockstep/graph/device_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace lockstep {
namespace {

constexpr std::string_view kForms =
    "expected /job:NAME/replica:N/task:N/device:TYPE:N with any part left out, or TYPE:N";

Status Bad(std::string_view text, std::string_view why) {
  return InvalidArgument(fmt::format("device name '{}': {}; {}", text, why, kForms));
}

bool IsName(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return !text.empty() && letter(text[0]) && std::all_of(text.begin(), text.end(), [&](char c) {
    return letter(c) || (c >= '0' && c <= '9') || c == '_';
  });
}

bool ParseNumber(std::string_view text, std::optional<int>& number) {
  if (text == "*") {
    return true;
  }
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || value < 0) {
    return false;
  }
  number = value;
  return true;
}

// "CPU:0", "CPU", "*".
bool ParseDevice(std::string_view text, DeviceName& name) {
  const size_t colon = text.find(':');
  const std::string_view type = text.substr(0, colon);
  if (type != "*") {
    if (!IsName(type)) {
      return false;
    }
    std::string upper(type);
    std::transform(upper.begin(), upper.end(), upper.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
    name.type = std::move(upper);
  }
  return colon == std::string_view::npos || ParseNumber(text.substr(colon + 1), name.index);
}

}  // namespace

Result<DeviceName> DeviceName::Parse(std::string_view text) {
  DeviceName name;
  if (text.empty()) {
    return name;
  }
  if (text[0] != '/') {
    if (!ParseDevice(text, name)) {
      return Bad(text, "not a device");
    }
    return name;
  }
  std::string_view rest = text;
  std::string seen;
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const size_t slash = rest.find('/');
    const std::string_view part = rest.substr(0, slash);
    rest = slash == std::string_view::npos ? std::string_view() : rest.substr(slash);
    const size_t colon = part.find(':');
    const std::string_view key = part.substr(0, colon);
    const std::string_view value =
        colon == std::string_view::npos ? std::string_view() : part.substr(colon + 1);
    bool good = true;
    std::string_view kind = key;
    if (key == "job") {
      good = value == "*" || IsName(value);
      if (good && value != "*") {
        name.job = std::string(value);
      }
    } else if (key == "replica") {
      good = ParseNumber(value, name.replica);
    } else if (key == "task") {
      good = ParseNumber(value, name.task);
    } else {
      kind = "device";
      good = key == "device" ? ParseDevice(value, name) : ParseDevice(part, name);
    }
    if (!good) {
      return Bad(text, fmt::format("the part '{}' is malformed", part));
    }
    const std::string mark = fmt::format("/{}/", kind);
    if (seen.find(mark) != std::string::npos) {
      return Bad(text, fmt::format("the part '{}' is given twice", kind));
    }
    seen += mark;
  }
  return name;
}

DeviceName DeviceName::MergedWith(const DeviceName& inner) const {
  DeviceName merged = *this;
  if (inner.job) {
    merged.job = inner.job;
  }
  if (inner.replica) {
    merged.replica = inner.replica;
  }
  if (inner.task) {
    merged.task = inner.task;
  }
  if (inner.type && inner.type != type) {
    merged.type = inner.type;
    merged.index.reset();
  }
  if (inner.index) {
    merged.index = inner.index;
  }
  return merged;
}

DeviceName DeviceName::FilledFrom(const DeviceName& base) const {
  DeviceName filled = base.MergedWith(*this);
  if (type && !index) {
    filled.index.reset();
  }
  return filled;
}

Result<DeviceName> DeviceName::CombinedWith(const DeviceName& other, bool soft) const {
  DeviceName combined = MergedWith(other);
  const auto differ = [](const auto& a, const auto& b) { return a && b && *a != *b; };
  const bool types_differ = differ(type, other.type);
  if (differ(job, other.job) || differ(replica, other.replica) || differ(task, other.task) ||
      (!soft && (types_differ || differ(index, other.index)))) {
    return InvalidArgument(fmt::format("the device names '{}' and '{}' contradict each other",
                                       ToString(), other.ToString()));
  }
  if (types_differ) {
    combined.type.reset();
  }
  if (types_differ || differ(index, other.index)) {
    combined.index.reset();
  } else if (index) {
    combined.index = index;
  }
  return combined;
}

bool DeviceName::CompatibleWith(const DeviceName& other) const {
  const auto agree = [](const auto& a, const auto& b) { return !a || !b || *a == *b; };
  return agree(job, other.job) && agree(replica, other.replica) && agree(task, other.task) &&
         agree(type, other.type) && agree(index, other.index);
}

bool DeviceName::Covers(const DeviceName& other) const {
  const auto covers = [](const auto& a, const auto& b) { return !a || (b && *a == *b); };
  return covers(job, other.job) && covers(replica, other.replica) && covers(task, other.task) &&
         covers(type, other.type) && covers(index, other.index);
}

bool DeviceName::SameTask(const DeviceName& other) const {
  return names_task() && job == other.job && replica == other.replica && task == other.task;
}

DeviceName DeviceName::TaskPart() const {
  DeviceName part;
  part.job = job;
  part.replica = replica;
  part.task = task;
  return part;
}

DeviceName DeviceName::LocalPart() const {
  DeviceName part;
  part.type = type;
  part.index = index;
  return part;
}

std::string DeviceName::ToString() const {
  std::string text;
  if (job) {
    text += fmt::format("/job:{}", *job);
  }
  if (replica) {
    text += fmt::format("/replica:{}", *replica);
  }
  if (task) {
    text += fmt::format("/task:{}", *task);
  }
  if (type || index) {
    text += fmt::format("/device:{}", type.value_or("*"));
    if (index) {
      text += fmt::format(":{}", *index);
    }
  }
  return text;
}

}  // namespace lockstep
