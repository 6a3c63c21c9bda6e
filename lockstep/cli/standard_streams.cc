#include "lockstep/cli/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "lockstep/base/file.h"

namespace lockstep::cli {

Status HoldStandardStreams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0 || errno != EBADF) {
      continue;
    }
    // The lowest free number is this one. Opened for the direction that nobody uses.
    const int access = stream == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    if (::open("/dev/null", access) < 0) {
      return ErrnoStatus(errno, "/dev/null", "open");
    }
  }
  return OkStatus();
}

}  // namespace lockstep::cli
