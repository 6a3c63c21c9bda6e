#include "lockstep/cluster/launch/output_queue.h"

#include <fmt/format.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "lockstep/base/file.h"

namespace lockstep::cluster {
namespace {

// A pipe that poll(2) reports as writable takes that much without blocking.
constexpr size_t kAtOnce = PIPE_BUF;

}  // namespace

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
    block.append(line, from, kAtOnce - block.size());
    from = 0;
    if (block.size() == kAtOnce) {
      break;
    }
  }
  const ssize_t done = write(fd_, block.data(), block.size());
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
