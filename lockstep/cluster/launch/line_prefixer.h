// Turns a task's output, which comes in pieces, into whole lines with a prefix each. A line ends
// with '\n' only, whatever its length; what the task leaves without one at its end becomes a line
// too. Not thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace lockstep::cluster {

class LinePrefixer {
 public:
  // A line of more bytes is passed on in pieces of this size, each as a line of its own, so that a
  // task that never ends a line cannot fill the memory.
  static constexpr size_t kMaxLine = size_t{64} << 20;

  // `sink` gets each line with prefix and '\n'.
  LinePrefixer(std::string prefix, std::function<void(std::string)> sink,
               size_t max_line = kMaxLine);

  void Feed(std::string_view bytes);

  // The end of the output.
  void Finish();

  // Bytes of the line that has not ended yet.
  size_t pending() const { return line_.size() - prefix_.size(); }

 private:
  void Emit();

  std::string prefix_;
  std::function<void(std::string)> sink_;
  size_t max_line_;
  // Prefix and what came of the line.
  std::string line_;
};

}  // namespace lockstep::cluster
