// Servers in processes of their own, whose tensors travel over every kind of link. The test
// itself has no server, so that it may fork.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/cluster/client/remote_session.h"
#include "lockstep/cluster/testing/local_cluster.h"
#include "lockstep/cluster/testing/soon.h"
#include "lockstep/graph/builder.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/catalog.h"
#include "lockstep/op/placeholder.h"

namespace lockstep::cluster {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kProcessHeartbeat{2000};

// A process that runs one task, and what it has to say in the end.
class TaskProcess {
 public:
  explicit TaskProcess(const std::function<Status()>& run) {
    std::array<int, 2> ends{};
    LS_CHECK(pipe2(ends.data(), O_CLOEXEC) == 0);
    read_ = ends[0];
    pid_ = fork();
    LS_CHECK(pid_ >= 0);
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const std::string text = run().ToString();
      _exit(write(ends[1], text.data(), text.size()) < 0 ? 1 : 0);
    }
    close(ends[1]);
  }

  TaskProcess(const TaskProcess&) = delete;
  TaskProcess& operator=(const TaskProcess&) = delete;

  ~TaskProcess() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    close(read_);
  }

  void Signal(int number) const { kill(pid_, number); }

  // Waits until it has said all, or was killed.
  std::string Outcome() const {
    std::string text;
    std::array<char, 4096> piece{};
    for (ssize_t size = 0; (size = read(read_, piece.data(), piece.size())) > 0;) {
      text.append(piece.data(), static_cast<size_t>(size));
    }
    return text;
  }

 private:
  int read_ = -1;
  pid_t pid_ = -1;
};

// What was said when all is well.
std::string Fine() {
  return OkStatus().ToString();
}

class ProcessClusterTest : public ::testing::TestWithParam<const char*> {
 protected:
  static constexpr int kTasks = 3;

  Result<std::unique_ptr<Server>> StartServer(int task) {
    ServerDef::Options options;
    options.job = "worker";
    options.index = task;
    options.transport = GetParam();
    LS_ASSIGN_OR_RETURN(ServerDef def, ServerDef::Create(spec_, options));
    LS_ASSIGN_OR_RETURN(auto server,
                        Server::Create(std::move(def), {.heartbeat = kProcessHeartbeat}));
    LS_TRY(server->Start(Soon()));
    return server;
  }

  Status Serve(int task) {
    LS_ASSIGN_OR_RETURN(const auto server, StartServer(task));
    const Status status = server->Join(Soon());
    (void)server->Stop(Deadline::After(milliseconds(1000)));
    return status;
  }

  // Each of the tasks doubles what it gets from the one before; the first one gets it back.
  Status Lead(const std::function<Status(RemoteSession::Callable&)>& use) {
    LS_ASSIGN_OR_RETURN(const auto server, StartServer(0));
    const auto work = [&]() -> Status {
      Graph graph(op::Catalog());
      Builder b(graph);
      Value x;
      Value y;
      for (int hop = 0; hop <= kTasks; ++hop) {
        DeviceScope device(b, fmt::format("/job:worker/task:{}", hop % kTasks));
        if (hop == 0) {
          x = op::Placeholder(b, DType::kFloat32, {Shape::kUnknownDim}, "x");
          y = x;
        }
        y = op::Add(b, y, y);
      }
      LS_TRY(b.status());
      LS_ASSIGN_OR_RETURN(const auto session, RemoteSession::Create(graph, *server, {}));
      LS_ASSIGN_OR_RETURN(auto callable, session->MakeCallable({x}, {y}));
      return use(callable);
    };
    const Status status = work();
    const Status stopped =
        server->Stop(status.ok() ? Soon() : Deadline::After(2 * kProcessHeartbeat), status);
    return status.ok() ? stopped : status;
  }

  static Status Step(RemoteSession::Callable& callable, int64_t size) {
    LS_ASSIGN_OR_RETURN(const Tensor x, Tensor::Allocate(DType::kFloat32, {size}));
    for (int64_t i = 0; i < size; ++i) {
      x.values<float>()[static_cast<size_t>(i)] = static_cast<float>(i % 1000);
    }
    LS_ASSIGN_OR_RETURN(const std::vector<Tensor> out, callable.Run({x}));
    for (int64_t i = 0; i < size; ++i) {
      if (out[0].values<float>()[static_cast<size_t>(i)] != 16.0F * static_cast<float>(i % 1000)) {
        return Internal(fmt::format("element {} of {} is wrong", i, size));
      }
    }
    return OkStatus();
  }

  const ClusterSpec spec_ = LocalSpec({{"worker", kTasks}});
};

TEST_P(ProcessClusterTest, TensorsOfEverySize) {
  const TaskProcess second([this] { return Serve(1); });
  const TaskProcess third([this] { return Serve(2); });
  const TaskProcess chief([this] {
    return Lead([](RemoteSession::Callable& callable) -> Status {
      for (const int64_t size : {1, 0, 3, 4000, 5000, 1'000'000, 1, 2'000'000, 2}) {
        for (int i = 0; i < 3; ++i) {
          LS_TRY(Step(callable, size));
        }
      }
      for (int i = 0; i < 500; ++i) {
        LS_TRY(Step(callable, 1));
      }
      return OkStatus();
    });
  });
  EXPECT_EQ(chief.Outcome(), Fine());
  EXPECT_EQ(second.Outcome(), Fine());
  EXPECT_EQ(third.Outcome(), Fine());
}

TEST_P(ProcessClusterTest, ATaskThatIsKilledOrStoppedIsNamedByAll) {
  for (const int signal : {SIGKILL, SIGSTOP}) {
    std::array<int, 2> running{};
    ASSERT_EQ(pipe2(running.data(), O_CLOEXEC), 0);
    const TaskProcess second([this] { return Serve(1); });
    const TaskProcess third([this] { return Serve(2); });
    const TaskProcess chief([&] {
      return Lead([&](RemoteSession::Callable& callable) -> Status {
        LS_TRY(Step(callable, 1));
        if (write(running[1], "x", 1) != 1) {
          return Internal("nobody listens");
        }
        for (;;) {
          LS_TRY(Step(callable, 100'000));
        }
      });
    });
    char byte = 0;
    ASSERT_EQ(read(running[0], &byte, 1), 1);
    const auto begin = Deadline::Clock::now();
    third.Signal(signal);
    for (const TaskProcess* process : {&chief, &second}) {
      const std::string outcome = process->Outcome();
      EXPECT_NE(outcome.find("UNAVAILABLE"), std::string::npos) << outcome;
      EXPECT_NE(outcome.find("/job:worker/task:2"), std::string::npos) << outcome;
    }
    // The chief stays until the others have left, two heartbeats more at most.
    EXPECT_LT(Deadline::Clock::now() - begin, 4 * kProcessHeartbeat);
    close(running[0]);
    close(running[1]);
  }
}

TEST_P(ProcessClusterTest, AChiefThatGivesUpSaysWhy) {
  const TaskProcess second([this] { return Serve(1); });
  const TaskProcess third([this] { return Serve(2); });
  const TaskProcess chief([this] {
    return Lead([](RemoteSession::Callable& callable) -> Status {
      LS_TRY(Step(callable, 1));
      return InvalidArgument("the data are no good");
    });
  });
  EXPECT_NE(chief.Outcome().find("the data are no good"), std::string::npos);
  for (const TaskProcess* process : {&second, &third}) {
    const std::string outcome = process->Outcome();
    EXPECT_NE(outcome.find("/job:worker/task:0 gave up"), std::string::npos) << outcome;
    EXPECT_NE(outcome.find("the data are no good"), std::string::npos) << outcome;
  }
}

INSTANTIATE_TEST_SUITE_P(Links, ProcessClusterTest, ::testing::Values("shm", "ucx", "grpc"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace lockstep::cluster
