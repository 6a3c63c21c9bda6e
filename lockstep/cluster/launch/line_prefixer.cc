#include "lockstep/cluster/launch/line_prefixer.h"

#include <algorithm>
#include <utility>

namespace lockstep::cluster {

LinePrefixer::LinePrefixer(std::string prefix, std::function<void(std::string)> sink,
                           size_t max_line)
    : prefix_(std::move(prefix)), sink_(std::move(sink)), max_line_(max_line), line_(prefix_) {}

void LinePrefixer::Emit() {
  line_ += '\n';
  sink_(std::exchange(line_, prefix_));
}

void LinePrefixer::Feed(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t newline = bytes.find('\n');
    const std::string_view part = bytes.substr(0, newline);
    const size_t room = max_line_ - pending();
    if (part.size() > room) {
      line_ += part.substr(0, room);
      bytes.remove_prefix(room);
      Emit();
      continue;
    }
    line_ += part;
    if (newline == std::string_view::npos) {
      return;
    }
    bytes.remove_prefix(newline + 1);
    Emit();
  }
}

void LinePrefixer::Finish() {
  if (pending() > 0) {
    Emit();
  }
}

}  // namespace lockstep::cluster
