#include "lockstep/observe/terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace lockstep::observe {
namespace {

TEST(TerminalTest, PipesAndClosedDescriptorsAreNoTerminals) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  EXPECT_EQ(TerminalWidth(ends[1]), std::nullopt);
  ::close(ends[0]);
  ::close(ends[1]);
  EXPECT_EQ(TerminalWidth(-1), std::nullopt);
}

TEST(TerminalTest, AsksATerminalForItsWidth) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0) {
    GTEST_SKIP() << "no pseudo-terminals here";
  }
  winsize size = {};
  size.ws_col = 123;
  ASSERT_EQ(::ioctl(terminal, TIOCSWINSZ, &size), 0);
  EXPECT_EQ(TerminalWidth(terminal), 123);
  size.ws_col = 0;
  ASSERT_EQ(::ioctl(terminal, TIOCSWINSZ, &size), 0);
  EXPECT_EQ(TerminalWidth(terminal), 80);
  ::close(terminal);
}

}  // namespace
}  // namespace lockstep::observe
