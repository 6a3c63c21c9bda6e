#include "lockstep/cli/bench_processes.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "lockstep/base/descriptor.h"

namespace lockstep::cli {
namespace {

using Descriptor = lockstep::internal::Descriptor;

constexpr uint64_t kMaxTextBytes = uint64_t{1} << 24;

Status Ended() {
  return Unavailable("a process of the measurement has ended");
}

// Without the signal that a process which has ended would cause.
Status SendAll(int fd, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t sent = send(fd, data, size, MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR) {
      return Ended();
    }
    if (sent > 0) {
      data += sent;
      size -= static_cast<size_t>(sent);
    }
  }
  return OkStatus();
}

Status WriteText(int fd, const std::string& text) {
  const uint64_t size = text.size();
  LS_TRY(SendAll(fd, reinterpret_cast<const char*>(&size), sizeof(size)));
  return SendAll(fd, text.data(), size);
}

Result<std::string> ReadText(int fd) {
  uint64_t size = 0;
  if (recv(fd, &size, sizeof(size), MSG_WAITALL) != static_cast<ssize_t>(sizeof(size)) ||
      size > kMaxTextBytes) {
    return Ended();
  }
  std::string text(size, '\0');
  if (size > 0 && recv(fd, text.data(), size, MSG_WAITALL) != static_cast<ssize_t>(size)) {
    return Ended();
  }
  return text;
}

// The child's end: what it puts goes to the parent, which answers with what all have put.
class ChildExchange : public net::BlobExchange {
 public:
  ChildExchange(int fd, int count) : fd_(fd), count_(count) {}

  Status Put(std::string blob, const Deadline&) override { return WriteText(fd_, blob); }

  Result<std::string> Get(net::PeerId task, const Deadline&) override {
    while (static_cast<int>(blobs_.size()) < count_) {
      LS_ASSIGN_OR_RETURN(std::string blob, ReadText(fd_));
      blobs_.push_back(std::move(blob));
    }
    return blobs_.at(static_cast<size_t>(task));
  }

 private:
  int fd_;
  int count_;
  std::vector<std::string> blobs_;
};

// Kills and awaits what is left of the children.
class Children {
 public:
  Children() = default;
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  ~Children() {
    for (const pid_t pid : pids_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }

  // In the child: calls `run` and ends.
  Status Start(int index, int count,
               const std::function<Result<std::string>(int, net::BlobExchange&)>& run) {
    std::array<int, 2> ends{};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
      return Internal(fmt::format("socketpair: {}", std::strerror(errno)));
    }
    Descriptor mine(ends[0]);
    const Descriptor theirs(ends[1]);
    const pid_t pid = fork();
    if (pid < 0) {
      return ResourceExhausted(fmt::format("fork: {}", std::strerror(errno)));
    }
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      mine.Close();
      sockets_.clear();
      ChildExchange exchange(theirs.get(), count);
      const Result<std::string> answer = run(index, exchange);
      const bool told =
          WriteText(theirs.get(), answer.ok() ? "" : answer.status().ToString()).ok() &&
          WriteText(theirs.get(), answer.ok() ? *answer : "").ok();
      _exit(told ? 0 : 1);
    }
    pids_.push_back(pid);
    sockets_.push_back(std::move(mine));
    return OkStatus();
  }

  // Gives each what all have put. Who has ended meanwhile has left its answer.
  Status Exchange() {
    std::vector<std::string> blobs;
    for (const Descriptor& socket : sockets_) {
      LS_ASSIGN_OR_RETURN(std::string blob, ReadText(socket.get()));
      blobs.push_back(std::move(blob));
    }
    for (const Descriptor& socket : sockets_) {
      Status written;
      for (size_t i = 0; i < blobs.size() && written.ok(); ++i) {
        written = WriteText(socket.get(), blobs[i]);
      }
    }
    return OkStatus();
  }

  Result<std::string> Answers() {
    std::string first;
    for (size_t i = 0; i < sockets_.size(); ++i) {
      LS_ASSIGN_OR_RETURN(const std::string error, ReadText(sockets_[i].get()));
      LS_ASSIGN_OR_RETURN(std::string answer, ReadText(sockets_[i].get()));
      if (!error.empty()) {
        return Unavailable(fmt::format("process {}: {}", i, error));
      }
      if (i == 0) {
        first = std::move(answer);
      }
    }
    return first;
  }

 private:
  std::vector<pid_t> pids_;
  std::vector<Descriptor> sockets_;
};

}  // namespace

Result<std::string> RunForked(
    int count, const std::function<Result<std::string>(int, net::BlobExchange&)>& run) {
  Children children;
  for (int index = 0; index < count; ++index) {
    LS_TRY(children.Start(index, count, run));
  }
  LS_TRY(children.Exchange());
  return children.Answers();
}

}  // namespace lockstep::cli
