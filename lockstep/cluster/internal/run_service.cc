#include "lockstep/cluster/internal/run_service.h"

#include <fmt/format.h>

#include <utility>

#include "lockstep/cluster/internal/call_deadline.h"
#include "lockstep/cluster/internal/run_wire.h"
#include "lockstep/net/waiter.h"

namespace lockstep::cluster::internal {
namespace {

Status ReceiveFeeds(net::Transport& transport, int task, RunRequest& request) {
  net::Waiter waiter(transport);
  for (const size_t i : request.separate) {
    transport.Recv(task, FeedKey(request.run, i), net::IntoTensor(&request.feeds[i]),
                   request.what.deadline, waiter.Received());
  }
  return waiter.Wait();
}

}  // namespace

RunService::RunService(std::shared_ptr<Worker> worker, std::shared_ptr<TaskLinks> links)
    : worker_(std::move(worker)),
      links_(std::move(links)),
      transport_(*links_->transport()),
      threads_(transport_.progress()) {}

RunService::~RunService() {
  Stop();
}

void RunService::Stop() {
  threads_.Stop();
  const MutexLock lock(mu_);
  while (posted_ > 0) {
    changed_.WaitUntil(mu_, Deadline::Infinite());
  }
}

Status RunService::Connect(const std::vector<TaskStart>& tasks, const Deadline& deadline) {
  LS_TRY(links_->Connect(tasks, deadline));
  for (const TaskStart& task : tasks) {
    Listen(task.number);
  }
  return OkStatus();
}

void RunService::Listen(int task) {
  {
    const MutexLock lock(mu_);
    if (task == transport_.self() || !listening_.insert(task).second) {
      return;
    }
  }
  Post(task);
}

void RunService::Post(int task) {
  {
    const MutexLock lock(mu_);
    ++posted_;
  }
  const auto message = std::make_shared<std::string>();
  transport_.Recv(
      task, kRequestKey,
      [message](const net::MessageHeader& header) -> Result<void*> {
        if (header.bytes > kMaxRunMessageBytes) {
          return InvalidArgument(fmt::format("a request of {} bytes", header.bytes));
        }
        message->resize(header.bytes);
        return static_cast<void*>(message->data());
      },
      Deadline::Infinite(),
      [this, task, message](const Status& status, const net::MessageHeader&) {
        OnRequest(task, status, message);
        const MutexLock lock(mu_);
        --posted_;
        changed_.NotifyAll();
      });
}

void RunService::OnRequest(int task, const Status& status,
                           const std::shared_ptr<std::string>& message) {
  Status started = status;
  if (started.ok()) {
    // The thread waits for the next request, not this callback, which may run inside of Recv.
    started = threads_.Start([this, task, message] {
      Post(task);
      Serve(task, *message);
    });
  }
  if (started.ok()) {
    return;
  }
  {
    const MutexLock lock(mu_);
    listening_.erase(task);
  }
  if (status.code() == StatusCode::kUnavailable) {
    // The link broke. It may have been made again before this was known here.
    if (transport_.peer_status(task).ok()) {
      Listen(task);
    }
    return;
  }
  // A master whose request nobody serves must not wait for it.
  transport_.FailPeer(task, started);
}

void RunService::Serve(int task, const std::string& message) {
  Result<RunRequest> request = ParseRunRequest(message);
  if (!request.ok()) {
    transport_.FailPeer(task, request.status().With("a request to run a step"));
    return;
  }
  exec::Cancellation cancellation;
  const Status fed = ReceiveFeeds(transport_, task, *request);
  const Result<std::vector<Tensor>> fetches =
      fed.ok() ? worker_->RunGraph(request->what, request->feeds, cancellation)
               : fed.With("feeds of a step");
  Reply(task, request->run, request->what.deadline, fetches);
}

void RunService::Reply(int task, uint64_t run, const Deadline& deadline,
                       const Result<std::vector<Tensor>>& fetches) {
  Separate separate;
  Result<std::string> encoded = EncodeRunReply(fetches, separate);
  if (!encoded.ok()) {
    separate.clear();
    encoded = EncodeRunReply(encoded.status(), separate);
  }
  const auto bytes = std::make_shared<std::string>(std::move(encoded).value());
  // A reply that does not arrive needs no answer: its master is gone, or has given up.
  const Deadline until = CallDeadline(deadline);
  transport_.Send(task, ReplyKey(run), HeaderOfBytes(bytes->size()), bytes->data(), until,
                  [bytes](const Status&) {});
  for (const size_t i : separate) {
    const Tensor& fetch = (*fetches)[i];
    transport_.Send(task, FetchKey(run, i), net::HeaderOf(fetch), fetch.data(), until,
                    [fetch](const Status&) {});
  }
}

}  // namespace lockstep::cluster::internal
