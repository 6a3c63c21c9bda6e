#include "lockstep/cluster/launch/output_queue.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <limits.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "lockstep/base/descriptor.h"

namespace lockstep::cluster {
namespace {

using lockstep::internal::Descriptor;

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    LS_CHECK(pipe2(ends.data(), O_CLOEXEC) == 0);
    read = Descriptor(ends[0]);
    write = Descriptor(ends[1]);
  }

  Descriptor read{-1};
  Descriptor write{-1};
};

bool Writable(int fd) {
  pollfd entry{fd, POLLOUT, 0};
  return poll(&entry, 1, 0) == 1 && (entry.revents & POLLOUT) != 0;
}

TEST(OutputQueueTest, LinesComeInOrderAndNoWriteBlocks) {
  Pipe pipe;
  OutputQueue queue(pipe.write.get(), "out");
  std::string expected;
  for (int i = 0; i < 3000; ++i) {
    const std::string line =
        std::to_string(i) + std::string(static_cast<size_t>(i % 200), 'x') + "\n";
    queue.Add(line);
    expected += line;
  }
  queue.Add(std::string(1 << 20, 'y') + "\n");
  expected += std::string(1 << 20, 'y') + "\n";
  EXPECT_EQ(queue.size(), expected.size());
  std::string got;
  std::array<char, 3000> buffer{};
  while (queue.size() > 0 || got.size() < expected.size()) {
    // Fills the pipe as far as it goes, then takes out a little: a write that blocked would hang.
    while (queue.size() > 0 && Writable(pipe.write.get())) {
      queue.WriteSome();
    }
    const ssize_t size = read(pipe.read.get(), buffer.data(), buffer.size());
    ASSERT_GT(size, 0);
    got.append(buffer.data(), static_cast<size_t>(size));
  }
  EXPECT_EQ(got, expected);
  EXPECT_TRUE(queue.status().ok());
}

TEST(OutputQueueTest, OneWriteFillsAPipe) {
  Pipe pipe;
  const int capacity = fcntl(pipe.write.get(), F_GETPIPE_SZ);
  ASSERT_GT(capacity, PIPE_BUF);
  OutputQueue queue(pipe.write.get(), "out");
  queue.Add(std::string(1 << 20, 'y') + "\n");
  queue.WriteSome();
  int waiting = 0;
  ASSERT_EQ(ioctl(pipe.read.get(), FIONREAD, &waiting), 0);
  EXPECT_EQ(waiting, capacity);
  // Nobody else sees a difference.
  EXPECT_EQ(fcntl(pipe.write.get(), F_GETFL) & O_NONBLOCK, 0);
}

TEST(OutputQueueTest, NobodyReads) {
  signal(SIGPIPE, SIG_IGN);
  Pipe pipe;
  OutputQueue queue(pipe.write.get(), "standard output");
  queue.Add("a\n");
  pipe.read.Close();
  queue.WriteSome();
  EXPECT_FALSE(queue.status().ok());
  EXPECT_NE(queue.status().message().find("standard output: cannot write"), std::string::npos);
  EXPECT_EQ(queue.size(), 0U);
  queue.Add("b\n");
  EXPECT_EQ(queue.size(), 0U);
}

}  // namespace
}  // namespace lockstep::cluster
