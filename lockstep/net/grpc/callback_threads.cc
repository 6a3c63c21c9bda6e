#include "lockstep/net/grpc/callback_threads.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <future>
#include <memory>

#include "lockstep/base/macros.h"

namespace lockstep::net::grpc_link {
namespace {

// A channel that leads nowhere and lives as long as the process; its first call makes the threads.
std::shared_ptr<grpc::Channel> MakeAnchor() {
  std::shared_ptr<grpc::Channel> channel =
      grpc::CreateChannel("ipv4:127.0.0.1:1", grpc::InsecureChannelCredentials());
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now());
  const grpc::Slice nothing("");
  const grpc::ByteBuffer request(&nothing, 1);
  grpc::ByteBuffer response;
  std::promise<void> ended;
  stub.UnaryCall(&context, "/none", {}, &request, &response,
                 [&ended](const grpc::Status& /*status*/) { ended.set_value(); });
  ended.get_future().wait();
  return channel;
}

}  // namespace

void KeepCallbackThreads() {
  // Never released: at the end of the process the race is there too.
  static const std::shared_ptr<grpc::Channel>* const anchor =
      std::make_unique<std::shared_ptr<grpc::Channel>>(MakeAnchor()).release();
  LS_CHECK(anchor != nullptr);
}

}  // namespace lockstep::net::grpc_link
