#include "lockstep/cluster/launch/supervisor.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>

#include "lockstep/base/deadline.h"
#include "lockstep/cluster/launch/child.h"
#include "lockstep/cluster/launch/descendants.h"
#include "lockstep/cluster/launch/held_ports.h"
#include "lockstep/cluster/launch/line_prefixer.h"
#include "lockstep/cluster/launch/output_queue.h"
#include "lockstep/cluster/resolver/tf_config.h"

namespace lockstep::cluster {
namespace {

using lockstep::internal::Descriptor;

// What parameter servers have to end by themselves when the job is done.
constexpr std::chrono::milliseconds kServersTime(3000);
// What the tasks have written and nobody has read yet; above it they have to wait.
constexpr size_t kMaxQueued = size_t{8} << 20;
constexpr size_t kLastLines = 20;
constexpr size_t kLastLineBytes = 2000;

sigset_t WatchedSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    sigaddset(&set, number);
  }
  return set;
}

// A task and its output. The prefixers keep a pointer to it.
struct Task {
  TaskId id;
  Child child;
  std::unique_ptr<LinePrefixer> out;
  std::unique_ptr<LinePrefixer> err;
  std::deque<std::string> last_lines;
  // As of waitpid, once it has ended.
  std::optional<int> status;

  bool succeeded() const { return status && WIFEXITED(*status) && WEXITSTATUS(*status) == 0; }

  std::string Prefix() const { return fmt::format("[{}:{}] ", id.job, id.index); }
};

std::string EndOf(int status) {
  if (WIFSIGNALED(status)) {
    const int number = WTERMSIG(status);
    const char* name = sigdescr_np(number);
    return fmt::format("was ended by signal {} ({})", number, name == nullptr ? "unknown" : name);
  }
  return fmt::format("ended with exit code {}", WEXITSTATUS(status));
}

class Supervisor {
 public:
  Supervisor(const LaunchOptions& options, int guard)
      : options_(options),
        guard_(guard),
        out_(STDOUT_FILENO, "standard output"),
        err_(STDERR_FILENO, "standard error") {}

  int Run() {
    const Status started = Start();
    if (!started.ok()) {
      Say(started.message());
      const bool command = started.code() == StatusCode::kNotFound ||
                           started.code() == StatusCode::kPermissionDenied;
      exit_code_ = command ? LaunchExit::kUsage : LaunchExit::kOther;
      return Finish();
    }
    while (!AllEnded() && !guard_gone_ && stage_ != Stage::kKilling) {
      Poll(true);
      Advance();
    }
    return Finish();
  }

 private:
  enum class Stage { kRunning, kSettling, kTerminating, kKilling };

  void Say(std::string_view message) { err_.Add(fmt::format("lockstep: {}\n", message)); }

  Status Start() {
    LS_TRY(BecomeSubreaper());
    const sigset_t set = WatchedSignals();
    sigprocmask(SIG_BLOCK, &set, nullptr);
    // A reader that went away is seen by write(2).
    signal(SIGPIPE, SIG_IGN);
    signals_ = Descriptor(signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
    if (signals_.get() < 0) {
      return Internal("signalfd failed");
    }
    LS_ASSIGN_OR_RETURN(ports_, HoldLoopbackPorts(options_.workers + options_.ps));
    ClusterSpec::Jobs jobs;
    for (int i = 0; i < options_.workers + options_.ps; ++i) {
      const bool worker = i < options_.workers;
      jobs[worker ? "worker" : "ps"].emplace(worker ? i : i - options_.workers,
                                             ports_[static_cast<size_t>(i)].address);
    }
    LS_ASSIGN_OR_RETURN(const ClusterSpec cluster, ClusterSpec::FromJobs(std::move(jobs)));
    for (const ClusterSpec::Task& task : cluster.tasks()) {
      LS_TRY(StartTask(cluster, task.id));
    }
    return OkStatus();
  }

  Status StartTask(const ClusterSpec& cluster, const TaskId& id) {
    std::vector<std::string> environment = options_.environment;
    std::erase_if(environment,
                  [](const std::string& variable) { return variable.starts_with("TF_CONFIG="); });
    environment.push_back("TF_CONFIG=" + TfConfigText(cluster, id));
    auto task = std::make_unique<Task>();
    task->id = id;
    const bool plain = options_.first_is_plain && tasks_.empty() && id.job == "worker";
    LS_ASSIGN_OR_RETURN(task->child, StartChild(options_.command, environment,
                                                plain ? ChildOutput::kOurs : ChildOutput::kPipes));
    const auto sink = [task = task.get()](OutputQueue& queue) {
      return [task, &queue](std::string line) {
        task->last_lines.push_back(
            line.size() <= kLastLineBytes ? line : line.substr(0, kLastLineBytes) + "...\n");
        if (task->last_lines.size() > kLastLines) {
          task->last_lines.pop_front();
        }
        queue.Add(std::move(line));
      };
    };
    task->out = std::make_unique<LinePrefixer>(task->Prefix(), sink(out_));
    task->err = std::make_unique<LinePrefixer>(task->Prefix(), sink(err_));
    tasks_.push_back(std::move(task));
    return OkStatus();
  }

  bool AllEnded() const {
    return std::all_of(tasks_.begin(), tasks_.end(),
                       [](const auto& task) { return task->status.has_value(); });
  }

  // Waits for anything to happen, at most until the stage's deadline, and deals with it. Without
  // `watch`, only for output that can be written or read.
  void Poll(bool watch) {
    std::vector<pollfd> entries = {{guard_, POLLIN, 0}, {signals_.get(), POLLIN, 0}};
    const auto add_queue = [&](const OutputQueue& queue) {
      entries.push_back({queue.size() > 0 ? queue.fd() : -1, POLLOUT, 0});
    };
    add_queue(out_);
    add_queue(err_);
    for (const auto& task : tasks_) {
      entries.push_back({out_.size() < kMaxQueued ? task->child.out.get() : -1, POLLIN, 0});
      entries.push_back({err_.size() < kMaxQueued ? task->child.err.get() : -1, POLLIN, 0});
    }
    if (poll(entries.data(), entries.size(), watch ? TimeLeft() : -1) < 0) {
      return;
    }
    guard_gone_ |= entries[0].revents != 0;
    if (entries[1].revents != 0) {
      ReadSignals();
    }
    if (entries[2].revents != 0) {
      out_.WriteSome();
    }
    if (entries[3].revents != 0) {
      err_.WriteSome();
    }
    for (size_t i = 0; i < tasks_.size(); ++i) {
      if (entries[4 + 2 * i].revents != 0) {
        ReadOutput(tasks_[i]->child.out, *tasks_[i]->out);
      }
      if (entries[5 + 2 * i].revents != 0) {
        ReadOutput(tasks_[i]->child.err, *tasks_[i]->err);
      }
    }
  }

  int TimeLeft() const {
    if (!deadline_ || deadline_->infinite()) {
      return -1;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_->remaining());
    return static_cast<int>(std::min<int64_t>(left.count(), 1 << 30));
  }

  // Returns whether there may be more.
  bool ReadOutput(Descriptor& from, LinePrefixer& to) {
    if (from.get() < 0) {
      return false;
    }
    const ssize_t size = read(from.get(), buffer_.data(), buffer_.size());
    if (size > 0) {
      to.Feed(std::string_view(buffer_.data(), static_cast<size_t>(size)));
      return true;
    }
    if (size == 0 || (errno != EAGAIN && errno != EINTR)) {
      to.Finish();
      from.Close();
    }
    return false;
  }

  void ReadSignals() {
    signalfd_siginfo info{};
    while (read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
      if (info.ssi_signo != SIGCHLD) {
        Interrupt(static_cast<int>(info.ssi_signo));
      }
    }
    Reap();
  }

  void Reap() {
    int status = 0;
    pid_t pid = 0;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
      for (const auto& task : tasks_) {
        if (task->child.pid == pid) {
          task->status = status;
          NoteEnd(*task);
        }
      }
    }
  }

  // The first failure is the cause; but a task that failed by itself comes before those that lost a
  // peer, even if it ends later: a chief waits until the others have left. What a task does
  // after it was told to stop counts no more.
  void NoteEnd(const Task& task) {
    const bool told = interrupted_ || all_done_ || stage_ > Stage::kSettling;
    if (!task.succeeded() && !told && (failed_ == nullptr || LostPeer(*failed_))) {
      failed_ = failed_ == nullptr || !LostPeer(task) ? &task : failed_;
    }
  }

  static bool LostPeer(const Task& task) {
    return WIFEXITED(*task.status) && WEXITSTATUS(*task.status) == LaunchExit::kPeer;
  }

  void Interrupt(int number) {
    abandon_output_ = finishing_;
    if (interrupted_ || finishing_) {
      Enter(Stage::kKilling, Deadline::Infinite());
      return;
    }
    interrupted_ = true;
    SignalTasks(number == SIGHUP ? SIGTERM : number);
    // What is left after a failure has nothing to finish.
    const bool failing = failed_ != nullptr;
    Enter(Stage::kTerminating,
          Deadline::After(failing ? options_.grace : options_.stop_grace.value_or(options_.grace)));
  }

  void SignalTasks(int number) {
    for (const auto& task : tasks_) {
      if (!task->status) {
        kill(-task->child.pid, number);
      }
    }
  }

  // When tasks have lost a peer that none of them is, it is among those that do not end.
  void NoteStuck() {
    if (failed_ == nullptr || !LostPeer(*failed_)) {
      return;
    }
    for (const auto& task : tasks_) {
      if (!task->status) {
        stuck_ += fmt::format("{}{}", stuck_.empty() ? "" : ", ", task->id.ToString());
      }
    }
  }

  void Enter(Stage stage, Deadline deadline) {
    stage_ = stage;
    deadline_ = deadline;
  }

  // Are all tasks but parameter servers done, and well?
  bool OnlyServersLeft() const {
    return std::all_of(tasks_.begin(), tasks_.end(),
                       [](const auto& task) { return task->id.job == "ps" || task->succeeded(); });
  }

  // A lost task is news to the others, which say so when they notice; one that ended with an error
  // has said all there is.
  std::chrono::milliseconds SettleTime() const {
    if (failed_ == nullptr) {
      return std::min(options_.settle, kServersTime);
    }
    const bool lost = WIFSIGNALED(*failed_->status) || LostPeer(*failed_);
    return lost ? options_.settle : std::chrono::milliseconds(0);
  }

  void Advance() {
    if (!out_.status().ok() || !err_.status().ok()) {
      output_failed_ = true;
      Enter(Stage::kKilling, Deadline::Infinite());
    }
    switch (stage_) {
      case Stage::kRunning:
        all_done_ = failed_ == nullptr && options_.workers > 0 && OnlyServersLeft();
        if (failed_ != nullptr || all_done_) {
          Enter(Stage::kSettling, Deadline::After(SettleTime()));
        }
        break;
      case Stage::kSettling:
        if (deadline_->expired()) {
          NoteStuck();
          SignalTasks(SIGTERM);
          Enter(Stage::kTerminating, Deadline::After(options_.grace));
        }
        break;
      case Stage::kTerminating:
        if (deadline_->expired()) {
          Enter(Stage::kKilling, Deadline::Infinite());
        }
        break;
      case Stage::kKilling:
        break;
    }
  }

  // Ends whatever is left and passes on the rest of the output.
  int Finish() {
    finishing_ = true;
    const Status killed = KillDescendants(Deadline::After(kKillTime));
    // However slowly it is read: only the end of the guard and one more signal cut it short.
    while (!guard_gone_ && !abandon_output_ && HasOutput()) {
      Poll(false);
      if (!out_.status().ok() || !err_.status().ok()) {
        output_failed_ = true;
        break;
      }
    }
    if (!killed.ok()) {
      Say(killed.message());
    }
    DecideExit();
    while (!guard_gone_ && !abandon_output_ && err_.status().ok() && err_.size() > 0) {
      Poll(false);
    }
    return exit_code_;
  }

  bool HasOutput() const {
    return out_.size() > 0 || err_.size() > 0 ||
           std::any_of(tasks_.begin(), tasks_.end(), [](const auto& task) {
             return task->child.out.get() >= 0 || task->child.err.get() >= 0;
           });
  }

  void DecideExit() {
    if (output_failed_) {
      const Status& status = out_.status().ok() ? err_.status() : out_.status();
      Say(status.message());
      exit_code_ = LaunchExit::kOther;
    } else if (failed_ != nullptr) {
      exit_code_ =
          WIFSIGNALED(*failed_->status) ? LaunchExit::kPeer : WEXITSTATUS(*failed_->status);
      std::string what = fmt::format("{} {}", failed_->id.ToString(), EndOf(*failed_->status));
      if (!stuck_.empty()) {
        what += fmt::format("; {} did not end by itself and was ended", stuck_);
      }
      Say(failed_->last_lines.empty() ? what : what + "; its last lines:");
      for (const std::string& line : failed_->last_lines) {
        err_.Add(line);
      }
    } else if (interrupted_) {
      exit_code_ = LaunchExit::kInterrupted;
    }
  }

  const LaunchOptions& options_;
  const int guard_;
  OutputQueue out_;
  OutputQueue err_;
  Descriptor signals_{-1};
  std::vector<HeldPort> ports_;
  std::vector<std::unique_ptr<Task>> tasks_;
  std::array<char, 65536> buffer_{};
  Stage stage_ = Stage::kRunning;
  std::optional<Deadline> deadline_;
  // The one that decides the outcome.
  const Task* failed_ = nullptr;
  // Names of tasks that were still there although others had lost a peer.
  std::string stuck_;
  bool interrupted_ = false;
  // All but the parameter servers are done.
  bool all_done_ = false;
  bool guard_gone_ = false;
  bool output_failed_ = false;
  // The tasks have ended; and the rest of their output is not wanted any more.
  bool finishing_ = false;
  bool abandon_output_ = false;
  int exit_code_ = 0;
};

}  // namespace

int SuperviseTasks(const LaunchOptions& options, int guard) {
  return std::make_unique<Supervisor>(options, guard)->Run();
}

}  // namespace lockstep::cluster
