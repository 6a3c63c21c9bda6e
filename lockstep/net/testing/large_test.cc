// A tensor of more than 2 GiB over every kind of link. Takes 5 GB of memory.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "lockstep/net/grpc/grpc_provider.h"
#include "lockstep/net/testing/local_cluster.h"
#include "lockstep/net/ucx/ucx_provider.h"
#include "lockstep/net/waiter.h"

namespace lockstep::net::testing {
// The suite of all transports lies in the same library and is run by other programs.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TransportConformance);

namespace {

// 2.2 GiB: more than 32 bits with a sign can count, and no multiple of a chunk.
constexpr int64_t kElements = (int64_t{2256} << 18) + 7;

std::vector<LinkChoice> LinksOf(const std::string& kind) {
  if (kind == "ucx") {
    return {{LinkKind::kUcx, UcxFactory({.transports = "tcp,self", .net_devices = "lo"})}};
  }
  if (kind == "grpc") {
    return {{LinkKind::kGrpc, GrpcFactory({})}};
  }
  return {{LinkKind::kShm, ShmFactory({.direct_reads = kind == "shm"})}};
}

TEST(LargeTest, ArrivesWholeOverEveryLink) {
  const Tensor sent = Tensor::Allocate(DType::kFloat32, Shape{kElements}).value();
  const Tensor received = Tensor::Allocate(DType::kFloat32, Shape{kElements}).value();
  // Every page differs from every other.
  const auto size = static_cast<size_t>(kElements) * sizeof(float);
  auto* bytes = static_cast<uint8_t*>(sent.data());
  std::memset(bytes, 0x5A, size);
  for (uint64_t at = 0; at + sizeof(at) < size; at += 4096) {
    std::memcpy(bytes + at, &at, sizeof(at));
  }
  for (const std::string kind : {"shm", "rings", "ucx", "grpc"}) {
    SCOPED_TRACE(kind);
    std::memset(received.data(), 0, size);
    const auto cluster = MakeLocalCluster(2, LinksOf(kind));
    cluster->RunTasks([&](PeerId task) {
      Transport& transport = cluster->transport(task);
      const Deadline deadline = transport.After(std::chrono::seconds(100));
      if (task == 0) {
        const Status status = SendTensor(transport, 1, {.item = 1}, sent, deadline);
        EXPECT_TRUE(status.ok()) << status.ToString();
      } else {
        const Result<MessageHeader> header =
            RecvAndWait(transport, 0, {.item = 1}, received.data(), size, deadline);
        ASSERT_TRUE(header.ok()) << header.status().ToString();
        EXPECT_EQ(header->shape, sent.shape());
      }
    });
    EXPECT_EQ(std::memcmp(received.data(), sent.data(), size), 0);
  }
}

}  // namespace
}  // namespace lockstep::net::testing
