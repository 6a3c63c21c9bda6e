// Links that come in at the port of another server, against the suite of all transports.
#include "lockstep/net/grpc/grpc_door.h"

#include <fmt/format.h>

#include <utility>

#include "lockstep/net/grpc/callback_threads.h"
#include "lockstep/net/grpc/grpc_entrance.h"
#include "lockstep/net/grpc/grpc_provider.h"
#include "lockstep/net/testing/local_cluster.h"

namespace lockstep::net::testing {
namespace {

// A server that does nothing else.
class DoorServer : public grpc::CallbackGenericService {
 public:
  DoorServer() {
    grpc_link::KeepCallbackThreads();
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterCallbackGenericService(this);
    grpc_link::TuneForLinks(builder);
    server_ = builder.BuildAndStart();
    door_->Open(fmt::format("127.0.0.1:{}", port));
  }

  ~DoorServer() override {
    door_->Close();
    server_->Shutdown();
    server_->Wait();
  }

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    return grpc_link::IsLink(*context) ? grpc_link::Enter(*door_, context)
                                       : CallbackGenericService::CreateReactor(context);
  }

  const std::shared_ptr<GrpcDoor>& door() const { return door_; }

 private:
  const std::shared_ptr<GrpcDoor> door_ = std::make_shared<GrpcDoor>();
  std::unique_ptr<grpc::Server> server_;
};

// Every task with a server of its own.
class DoorCluster : public TestCluster {
 public:
  explicit DoorCluster(int num_tasks) {
    const auto make = [this](const internal::TaskIdentity& identity, internal::Reactor& reactor) {
      auto server = std::make_unique<DoorServer>();
      const LinkFactory factory = GrpcFactory({.door = server->door()});
      const MutexLock lock(mu_);
      servers_.push_back(std::move(server));
      return factory(identity, reactor);
    };
    tasks_ = MakeLocalCluster(num_tasks, {{LinkKind::kGrpc, make}});
  }

  Transport& transport(PeerId task) override { return tasks_->transport(task); }

  void RunTasks(const std::function<void(PeerId)>& run) override { tasks_->RunTasks(run); }

 private:
  Mutex mu_;
  std::vector<std::unique_ptr<DoorServer>> servers_ LS_GUARDED_BY(mu_);
  std::unique_ptr<TestCluster> tasks_;  // ends first
};

std::unique_ptr<TestCluster> MakeDoors(int num_tasks) {
  return std::make_unique<DoorCluster>(num_tasks);
}

INSTANTIATE_TEST_SUITE_P(GrpcDoor, TransportConformance,
                         ::testing::Values(Kind{"door", MakeDoors, 2}), KindName);

TEST(GrpcDoorTest, WhereNobodyWaitsLinksAreTriedAgain) {
  DoorServer server;
  const internal::TaskIdentity identity{0, 1, "secret"};
  auto progress = internal::Reactor::Create({}).value();
  internal::Reactor& reactor = *progress;
  Transport transport(std::move(progress), 0, {"/job:worker/task:0", "/job:worker/task:1"});
  const auto connect = [&](const std::shared_ptr<GrpcDoor>& mine, const std::string& address) {
    const auto provider = GrpcFactory({.door = mine})({1, 2, "secret"}, reactor).value();
    return provider->Connect(transport.engine(), {{0, 1, address}},
                             Deadline::After(std::chrono::milliseconds(300)));
  };
  DoorServer own;
  const Status nobody = connect(own.door(), server.door()->address());
  EXPECT_EQ(nobody.code(), StatusCode::kDeadlineExceeded) << nobody.ToString();
  EXPECT_NE(nobody.ToString().find("makes no gRPC links at the moment"), std::string::npos)
      << nobody.ToString();
}

TEST(GrpcDoorTest, AClosedDoorMakesNoLinks) {
  DoorServer server;
  server.door()->Close();
  EXPECT_EQ(server.door()->address(), "");
  const auto reactor = internal::Reactor::Create({}).value();
  EXPECT_EQ(GrpcFactory({.door = server.door()})({0, 1, "secret"}, *reactor).status().code(),
            StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace lockstep::net::testing
