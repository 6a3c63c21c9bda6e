// Contract C1: one job with eight replicas has one result, whoever executes it and however its
// gradients travel. The MNIST CNN, and a ResNet-20 with batch norm and dropout.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lockstep/data/synthetic.h"
#include "lockstep/model/zoo.h"
#include "lockstep/net/grpc/grpc_provider.h"
#include "lockstep/net/sim/sim_network.h"
#include "lockstep/net/testing/local_cluster.h"
#include "lockstep/net/ucx/ucx_provider.h"
#include "lockstep/strategy/local_replicas.h"
#include "lockstep/strategy/testing/group_of_all.h"
#include "lockstep/train/state_hash.h"

namespace lockstep::strategy {
namespace {

using collective::Algorithm;
using net::LinkKind;
using std::chrono::seconds;

constexpr int kReplicas = 8;

struct Job {
  std::string_view name;
  Shape sample_shape;
  model::ModelFn model;
  int64_t global_batch = 0;
  int64_t samples = 0;  // the last batch of an epoch is short
  int64_t steps = 0;
};

Job MnistCnn() {
  return {"mnist_cnn",
          Shape{28, 28, 1},
          model::MakeModel("mnist_cnn", {.dropout = 0.25}).value(),
          /*global_batch=*/32,
          /*samples=*/32 * 8 + 5,
          /*steps=*/27};
}

Job ResNet20() {
  const model::ModelFn resnet = model::MakeModel("resnet20", {}).value();
  const auto with_dropout = [resnet](const model::ModelContext& ctx, Value x) {
    return resnet(ctx, model::DropoutLayer(ctx, "dropout", x, 0.1));
  };
  return {"resnet20",          Shape{32, 32, 3},        with_dropout,
          /*global_batch=*/16, /*samples=*/16 * 11 + 3, /*steps=*/24};
}

// How a job is carried out.
struct Layout {
  std::string name;
  int workers = 1;
  int devices = 1;
  LinkKind link = LinkKind::kShm;
  size_t bucket_bytes = size_t{25} << 20;
  Algorithm algorithm = Algorithm::kAuto;
  std::vector<int> hosts = {};  // by worker; all on one if empty
};

class SameBitsTest : public ::testing::TestWithParam<Job (*)()> {
 protected:
  SameBitsTest() : job_(GetParam()()) {
    data::SyntheticOptions data;
    data.sample_shape = job_.sample_shape;
    data.num_classes = 10;
    data.train_samples = job_.samples;
    data.test_samples = 0;
    dataset_ = data::MakeSynthetic(data).value();
    train::ProgramOptions options;
    options.sample_shape = job_.sample_shape;
    options.num_classes = 10;
    options.optimizer.name = "momentum";
    options.clip.global_norm = 1;
    program_ = train::BuildProgram(job_.model, options).value();
  }

  std::string Train(LocalReplicasOptions options) const {
    options.replicas = kReplicas;
    options.seed = 3;
    const auto train = [&]() -> Result<std::string> {
      LS_ASSIGN_OR_RETURN(const auto strategy, LocalReplicas::Create(program_, options));
      LS_TRY(strategy->Initialize());
      LS_ASSIGN_OR_RETURN(data::Batcher batcher,
                          data::Batcher::Create(dataset_.train, {.seed = options.seed,
                                                                 .global_batch = job_.global_batch,
                                                                 .replicas = kReplicas}));
      const int64_t per_epoch = batcher.steps_per_epoch();
      for (int64_t step = 0; step < job_.steps; ++step) {
        if (step % per_epoch == 0) {
          batcher.StartEpoch(step / per_epoch);
        }
        LS_TRY(strategy->RunStep({batcher, step % per_epoch, step, 0.05F}).status());
      }
      return train::HashState(*strategy->shared_variables(), program_.model_variables,
                              program_.slot_variables, job_.steps);
    };
    const Result<std::string> hash = train();
    return hash.ok() ? *hash : hash.status().ToString();
  }

  // What worker 0 ends with, after checking that all end with the same.
  std::string Train(const Layout& layout) const {
    std::vector<std::string> hashes(static_cast<size_t>(layout.workers));
    const auto run = [&](net::Transport& transport, bool overlap) {
      const auto group =
          testing::GroupOfAll(transport, {.replicas = kReplicas,
                                          .shared_memory = layout.link == LinkKind::kShm,
                                          .hosts = layout.hosts})
              .value();
      hashes[static_cast<size_t>(transport.self())] =
          Train(LocalReplicasOptions{.devices = layout.devices,
                                     .group = group.get(),
                                     .bucket_bytes = layout.bucket_bytes,
                                     .algorithm = layout.algorithm,
                                     .timeout = seconds(100),
                                     .overlap = overlap});
    };
    if (layout.link == LinkKind::kSim) {
      net::SimOptions options;
      options.num_tasks = layout.workers;
      net::SimNetwork network(options);
      net::RunTasks(network, [&](net::PeerId task) { run(network.transport(task), false); });
    } else {
      const auto cluster = net::testing::MakeLocalCluster(layout.workers, {LinkOf(layout.link)});
      cluster->RunTasks([&](net::PeerId task) { run(cluster->transport(task), true); });
    }
    for (const std::string& hash : hashes) {
      EXPECT_EQ(hash, hashes[0]) << layout.name;
    }
    return hashes[0];
  }

  static net::LinkChoice LinkOf(LinkKind kind) {
    switch (kind) {
      case LinkKind::kUcx:
        return {kind, net::UcxFactory({.transports = "tcp,self", .net_devices = "lo"})};
      case LinkKind::kGrpc:
        return {kind, net::GrpcFactory({})};
      default:
        return {LinkKind::kShm, net::ShmFactory({})};
    }
  }

  const Job job_;
  data::Dataset dataset_;
  train::Program program_;
};

TEST_P(SameBitsTest, WhoeverExecutesItAndHoweverGradientsTravel) {
  const std::string expected = Train(LocalReplicasOptions{});
  ASSERT_EQ(expected.size(), 64U) << expected;
  EXPECT_EQ(Train(LocalReplicasOptions{.devices = 2}), expected);
  const std::vector<Layout> layouts = {
      {.name = "1 worker", .workers = 1},
      {.name = "2 workers", .workers = 2, .bucket_bytes = size_t{1} << 20},
      {.name = "3 workers", .workers = 3, .bucket_bytes = size_t{64} << 10},
      {.name = "4 workers of 2 devices", .workers = 4, .devices = 2},
      {.name = "5 workers", .workers = 5, .bucket_bytes = size_t{1} << 20},
      {.name = "8 workers", .workers = 8, .bucket_bytes = size_t{64} << 10},
      {.name = "sim", .workers = 3, .link = LinkKind::kSim, .bucket_bytes = size_t{64} << 10},
      {.name = "ucx", .workers = 2, .link = LinkKind::kUcx, .bucket_bytes = size_t{64} << 10},
      {.name = "grpc", .workers = 3, .link = LinkKind::kGrpc, .bucket_bytes = size_t{1} << 20},
      {.name = "gather",
       .workers = 3,
       .link = LinkKind::kUcx,
       .bucket_bytes = size_t{64} << 10,
       .algorithm = Algorithm::kGather},
      {.name = "pairwise",
       .workers = 4,
       .link = LinkKind::kUcx,
       .bucket_bytes = size_t{1} << 20,
       .algorithm = Algorithm::kPairwise},
      {.name = "halving and doubling",
       .workers = 4,
       .devices = 2,
       .link = LinkKind::kUcx,
       .algorithm = Algorithm::kHalvingDoubling},
      {.name = "two levels",
       .workers = 5,
       .bucket_bytes = size_t{1} << 20,
       .algorithm = Algorithm::kTwoLevel,
       .hosts = {0, 0, 1, 1, 2}},
  };
  for (const Layout& layout : layouts) {
    EXPECT_EQ(Train(layout), expected) << job_.name << ", " << layout.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, SameBitsTest, ::testing::Values(&MnistCnn, &ResNet20));

}  // namespace
}  // namespace lockstep::strategy
