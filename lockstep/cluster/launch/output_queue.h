// Lines on their way to a file descriptor that may be slow: written in order, each whole, and only
// as much at a time as the descriptor takes without making the writer wait. Not thread-safe.
#pragma once

#include <cstddef>
#include <deque>
#include <string>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/status.h"

namespace lockstep::cluster {

class OutputQueue {
 public:
  // Writes to `fd`, which stays the caller's; `name` is for messages.
  OutputQueue(int fd, std::string name);

  void Add(std::string line);

  // Bytes that wait.
  size_t size() const { return size_; }

  int fd() const { return fd_; }

  // Writes something; for after poll(2) said that `fd` takes data. Once a write has failed, what
  // waits and what comes is dropped, and status() says why.
  void WriteSome();

  const Status& status() const { return status_; }

 private:
  int fd_;
  std::string name_;
  // A pipe once more, in a form that does not make its writer wait; others that hold `fd_` do not
  // see the difference. -1: there is none.
  lockstep::internal::Descriptor pipe_;
  // How much is written at once.
  size_t at_once_;
  std::deque<std::string> lines_;
  // Of the first line, already written.
  size_t written_ = 0;
  size_t size_ = 0;
  Status status_;
};

}  // namespace lockstep::cluster
