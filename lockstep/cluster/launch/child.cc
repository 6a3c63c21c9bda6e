#include "lockstep/cluster/launch/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "lockstep/base/file.h"

namespace lockstep::cluster {
namespace {

using lockstep::internal::Descriptor;

struct Pipe {
  Descriptor read{-1};
  Descriptor write{-1};
};

Result<Pipe> MakePipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return ErrnoStatus(errno, "pipe", "create");
  }
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& text : strings) {
    pointers.push_back(const_cast<char*>(text.c_str()));
  }
  pointers.push_back(nullptr);
  return pointers;
}

void DefaultSignals() {
  struct sigaction action {};

  action.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) {
    sigaction(number, &action, nullptr);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

// In the new process: becomes the program, or returns the errno that says why not. `out` and `err`
// -1: it keeps ours.
int BecomeProgram(char* const* arguments, char* const* environment, int out, int err,
                  pid_t parent) {
  setpgid(0, 0);
  // The parent may have ended before this line; then nobody would send the signal.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 || getppid() != parent) {
    return ECHILD;
  }
  const int null = open("/dev/null", O_RDONLY);
  if (null < 0 || dup2(null, STDIN_FILENO) < 0) {
    return errno;
  }
  if (out >= 0 && (dup2(out, STDOUT_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0)) {
    return errno;
  }
  if (null > STDERR_FILENO) {
    close(null);
  }
  DefaultSignals();
  execvpe(arguments[0], arguments, environment);
  return errno;
}

}  // namespace

Result<Child> StartChild(const std::vector<std::string>& command,
                         const std::vector<std::string>& environment, ChildOutput output) {
  Pipe out;
  Pipe err;
  if (output == ChildOutput::kPipes) {
    LS_ASSIGN_OR_RETURN(out, MakePipe());
    LS_ASSIGN_OR_RETURN(err, MakePipe());
  }
  // Closed by a successful exec, or else tells why there was none.
  LS_ASSIGN_OR_RETURN(Pipe report, MakePipe());
  const std::vector<char*> arguments = Pointers(command);
  const std::vector<char*> variables = Pointers(environment);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) {
    return ErrnoStatus(errno, command[0], "start a process for it");
  }
  if (pid == 0) {
    const int error =
        BecomeProgram(arguments.data(), variables.data(), out.write.get(), err.write.get(), parent);
    const ssize_t written = write(report.write.get(), &error, sizeof(error));
    _exit(written == sizeof(error) ? 127 : 126);
  }
  // Here as well as there, so that it is done whoever comes first.
  setpgid(pid, pid);
  report.write.Close();
  int error = 0;
  ssize_t size = 0;
  do {
    size = read(report.read.get(), &error, sizeof(error));
  } while (size < 0 && errno == EINTR);
  if (size != 0) {
    waitpid(pid, nullptr, 0);
    return ErrnoStatus(size == sizeof(error) ? error : EIO, command[0], "execute");
  }
  for (const int end : {out.read.get(), err.read.get()}) {
    if (end >= 0) {
      fcntl(end, F_SETFL, O_NONBLOCK);
    }
  }
  return Child{pid, std::move(out.read), std::move(err.read)};
}

}  // namespace lockstep::cluster
