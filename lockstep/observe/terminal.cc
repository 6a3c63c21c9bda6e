#include "lockstep/observe/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

namespace lockstep::observe {

std::optional<int> TerminalWidth(int fd) {
  constexpr int kUsualWidth = 80;
  if (::isatty(fd) == 0) {
    return std::nullopt;
  }
  winsize size = {};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
    return kUsualWidth;
  }
  return size.ws_col;
}

}  // namespace lockstep::observe
