// SIGINT and SIGTERM as something to look at between steps: the first one is seen here, a second
// one ends the process at once.
#pragma once

namespace lockstep::cli {

class StopSignals {
 public:
  // Takes the signals over for the whole process. Make it before any thread is started.
  StopSignals();

  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals();

  // True from the first signal on; from then on the signals have their ordinary effect again.
  bool Received();

 private:
  int descriptor_;
  bool received_ = false;
};

}  // namespace lockstep::cli
