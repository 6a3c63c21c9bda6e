#include "lockstep/cluster/launch/descendants.h"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "lockstep/base/file.h"

namespace lockstep::cluster {
namespace {

// The parent in /proc/PID/stat, "12 (name) S 7 ...": behind the last ')', for the name may have
// anything in it. 0 if the process is gone.
pid_t ParentOf(std::string_view pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::stringstream content;
  content << file.rdbuf();
  const std::string text = content.str();
  const size_t close = text.rfind(')');
  if (close == std::string::npos || close + 4 >= text.size()) {
    return 0;
  }
  pid_t parent = 0;
  std::from_chars(text.data() + close + 4, text.data() + text.size(), parent);
  return parent;
}

std::vector<pid_t> Children() {
  std::vector<pid_t> children;
  const pid_t self = getpid();
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc"), closedir);
  if (folder == nullptr) {
    return children;
  }
  // One thread reads this folder; the reentrant form is deprecated.
  while (const dirent* entry = readdir(folder.get())) {  // NOLINT(concurrency-mt-unsafe)
    const std::string_view name = entry->d_name;
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error == std::errc() && end == name.data() + name.size() && ParentOf(name) == self) {
      children.push_back(pid);
    }
  }
  return children;
}

}  // namespace

Status BecomeSubreaper() {
  if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) {
    return ErrnoStatus(errno, "prctl", "become a subreaper");
  }
  return OkStatus();
}

Status KillDescendants(const Deadline& deadline) {
  // Between two looks at children that take their time to end.
  constexpr std::chrono::milliseconds kPause(2);
  while (true) {
    const std::vector<pid_t> children = Children();
    for (const pid_t child : children) {
      kill(child, SIGKILL);
    }
    pid_t ended = 0;
    do {
      ended = waitpid(-1, nullptr, WNOHANG);
    } while (ended > 0 || (ended < 0 && errno == EINTR));
    if (ended < 0) {
      return OkStatus();
    }
    if (deadline.expired()) {
      return DeadlineExceeded(
          fmt::format("processes that SIGKILL does not end: {}", fmt::join(children, ", ")));
    }
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace lockstep::cluster
