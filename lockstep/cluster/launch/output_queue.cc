#include "lockstep/cluster/launch/output_queue.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "lockstep/base/file.h"

namespace lockstep::cluster {
namespace {

using lockstep::internal::Descriptor;

// A pipe or terminal that poll(2) reports as writable takes that much without blocking.
constexpr size_t kWithoutBlocking = PIPE_BUF;
// For what does not block. Small pieces are slow on a busy machine: each wakes the reader.
constexpr size_t kBlock = size_t{64} << 10;

Descriptor OpenPipeAgain(int fd) {
  struct stat info = {};
  if (fstat(fd, &info) != 0 || !S_ISFIFO(info.st_mode)) {
    return Descriptor(-1);
  }
  return Descriptor(
      open(fmt::format("/proc/self/fd/{}", fd).c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
}

bool IsFile(int fd) {
  struct stat info = {};
  return fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
}

}  // namespace

OutputQueue::OutputQueue(int fd, std::string name)
    : fd_(fd),
      name_(std::move(name)),
      pipe_(OpenPipeAgain(fd)),
      at_once_(pipe_.get() >= 0 || IsFile(fd) ? kBlock : kWithoutBlocking) {}

void OutputQueue::Add(std::string line) {
  if (!status_.ok() || line.empty()) {
    return;
  }
  size_ += line.size();
  lines_.push_back(std::move(line));
}

void OutputQueue::WriteSome() {
  if (lines_.empty()) {
    return;
  }
  // Short lines together: a system call for each would be slow.
  std::string block;
  size_t from = written_;
  for (const std::string& line : lines_) {
    block.append(line, from, at_once_ - block.size());
    from = 0;
    if (block.size() == at_once_) {
      break;
    }
  }
  const ssize_t done = write(pipe_.get() >= 0 ? pipe_.get() : fd_, block.data(), block.size());
  if (done < 0) {
    if (errno != EINTR && errno != EAGAIN) {
      status_ = ErrnoStatus(errno, name_, "write");
      lines_.clear();
      size_ = 0;
    }
    return;
  }
  size_ -= static_cast<size_t>(done);
  written_ += static_cast<size_t>(done);
  while (!lines_.empty() && written_ >= lines_.front().size()) {
    written_ -= lines_.front().size();
    lines_.pop_front();
  }
}

}  // namespace lockstep::cluster
