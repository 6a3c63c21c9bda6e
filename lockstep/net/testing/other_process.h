// Tests with a second process, which is task 1 - self of a job of two.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/net/shm/socket.h"
#include "lockstep/net/wire_up.h"

namespace lockstep::net::testing {

// The two ends of a socket pair, each of which knows what the other put.
class PairExchange : public BlobExchange {
 public:
  explicit PairExchange(int fd) : fd_(fd) {}

  Status Put(std::string blob, const Deadline& /*deadline*/) override {
    return shm::SendPacket(fd_, std::as_bytes(std::span(blob)), {});
  }

  Result<std::string> Get(PeerId /*task*/, const Deadline& deadline) override {
    LS_ASSIGN_OR_RETURN(const shm::Packet packet, shm::ReceivePacket(fd_, deadline));
    return std::string(reinterpret_cast<const char*>(packet.bytes.data()), packet.bytes.size());
  }

 private:
  int fd_;
};

// The header of so many bytes.
inline MessageHeader Bytes(uint64_t bytes) {
  MessageHeader header;
  header.shape = Shape{static_cast<int64_t>(bytes)};
  header.bytes = bytes;
  return header;
}

// Killed in the end. The two processes have a socket pair.
class OtherProcess {
 public:
  // A copy of this one, which runs `run` with its end. Not with gRPC, which does not survive it.
  explicit OtherProcess(const std::function<void(int fd)>& run) {
    const std::array<int, 2> fds = Pair();
    pid_ = fork();
    if (pid_ == 0) {
      close(fds[0]);
      run(fds[1]);
      _exit(0);
    }
    close(fds[1]);
  }

  // This program again, with these arguments; its end is its standard input.
  explicit OtherProcess(std::vector<std::string> arguments) {
    const std::array<int, 2> fds = Pair();
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fds[1], STDIN_FILENO);
    posix_spawn_file_actions_addclose(&actions, fds[0]);
    arguments.insert(arguments.begin(), "/proc/self/exe");
    std::vector<char*> pointers;
    for (std::string& argument : arguments) {
      pointers.push_back(argument.data());
    }
    pointers.push_back(nullptr);
    std::array<char*, 1> environment = {nullptr};
    EXPECT_EQ(posix_spawn(&pid_, arguments[0].c_str(), &actions, nullptr, pointers.data(),
                          environment.data()),
              0);
    posix_spawn_file_actions_destroy(&actions);
    close(fds[1]);
  }

  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;

  ~OtherProcess() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    close(fd_);
  }

  int fd() const { return fd_; }

  pid_t pid() const { return pid_; }

  // Returns when it has stopped: a signal takes its time to reach another core.
  void Stop() const {
    kill(pid_, SIGSTOP);
    int state = 0;
    EXPECT_EQ(waitpid(pid_, &state, WUNTRACED), pid_);
    EXPECT_TRUE(WIFSTOPPED(state));
  }

 private:
  std::array<int, 2> Pair() {
    std::array<int, 2> fds{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds.data()), 0);
    fd_ = fds[0];
    return fds;
  }

  int fd_ = -1;
  pid_t pid_ = 0;
};

}  // namespace lockstep::net::testing
