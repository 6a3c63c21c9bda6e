#include "lockstep/cluster/internal/run_client.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "lockstep/cluster/internal/call_deadline.h"
#include "lockstep/cluster/internal/run_wire.h"

namespace lockstep::cluster::internal {

// One run at one task. It ends when nothing of it is under way any more; the first error ends what
// is.
class RunClient::Call : public std::enable_shared_from_this<RunClient::Call> {
 public:
  Call(RunClient& client, int task, uint64_t run, const Deadline& deadline,
       WorkerStub::RunDone done)
      : client_(client),
        transport_(*client.transport_),
        task_(task),
        run_(run),
        deadline_(deadline),
        done_(std::move(done)) {}

  void Start(const WorkerRun& what, const std::vector<Tensor>& feeds) {
    Separate separate;
    Result<std::string> request = EncodeRunRequest(run_, what, feeds, separate);
    if (!request.ok()) {
      Fail(request.status());
      Release();
      return;
    }
    request_ = std::move(request).value();
    Hold();
    transport_.Recv(
        task_, ReplyKey(run_),
        [self = shared_from_this()](const net::MessageHeader& header) {
          return self->ReplyBuffer(header);
        },
        CallDeadline(deadline_, CallLevel::kInner),
        [self = shared_from_this()](const Status& status, const net::MessageHeader&) {
          self->OnReply(status);
          self->Release();
        });
    Send(kRequestKey, HeaderOfBytes(request_.size()), request_.data(), Tensor());
    for (const size_t i : separate) {
      Send(FeedKey(run_, i), net::HeaderOf(feeds[i]), feeds[i].data(), feeds[i]);
    }
    Release();
  }

  void Fail(const Status& why) {
    {
      const MutexLock lock(mu_);
      if (!status_.ok()) {
        return;
      }
      status_ = why;
    }
    transport_.Abort(kRunScope, run_, why);
  }

 private:
  void Hold() { pending_.fetch_add(1); }

  void Release() {
    if (pending_.fetch_sub(1) == 1) {
      Finish();
    }
  }

  void Finish() {
    Status status;
    std::vector<Tensor> fetches;
    {
      const MutexLock lock(mu_);
      status = status_;
      fetches = std::move(reply_.fetches);
    }
    if (!status.ok()) {
      // What still comes is dropped.
      transport_.EndStep(kRunScope, run_);
      done_(status);
    } else {
      done_(std::move(fetches));
    }
    // What it holds may hold the client.
    done_ = nullptr;
    client_.OnEnd();
  }

  // `tensor` stays until it is sent.
  void Send(const net::MessageKey& key, const net::MessageHeader& header, const void* data,
            const Tensor& tensor) {
    Hold();
    transport_.Send(task_, key, header, data, deadline_,
                    [self = shared_from_this(), tensor](const Status& status) {
                      self->Check(status);
                      self->Release();
                    });
  }

  void Check(const Status& status) {
    if (!status.ok()) {
      Fail(Explain(status));
    }
  }

  // What a message was does not matter to whoever runs a step.
  Status Explain(const Status& status) const {
    const std::string& name = transport_.task_name(task_);
    return status.code() == StatusCode::kDeadlineExceeded
               ? DeadlineExceeded(fmt::format("{} did not run its part of the step in time", name))
               : Status(status.code(), status.message());
  }

  Result<void*> ReplyBuffer(const net::MessageHeader& header) {
    if (header.bytes > kMaxRunMessageBytes) {
      return InvalidArgument(fmt::format("a reply of {} bytes", header.bytes));
    }
    bytes_.resize(header.bytes);
    return static_cast<void*>(bytes_.data());
  }

  void OnReply(const Status& status) {
    if (!status.ok()) {
      Check(status);
      return;
    }
    Result<RunReply> reply = ParseRunReply(bytes_);
    if (!reply.ok()) {
      Fail(reply.status().With("a reply of " + transport_.task_name(task_)));
      return;
    }
    if (!reply->status.ok()) {
      Fail(reply->status);
      return;
    }
    std::vector<std::pair<size_t, Tensor*>> separate;
    {
      const MutexLock lock(mu_);
      reply_ = std::move(reply).value();
      for (const size_t i : reply_.separate) {
        separate.emplace_back(i, &reply_.fetches[i]);
      }
    }
    for (const auto& [i, fetch] : separate) {
      Hold();
      transport_.Recv(
          task_, FetchKey(run_, i), net::IntoTensor(fetch),
          CallDeadline(deadline_, CallLevel::kInner),
          [self = shared_from_this()](const Status& received, const net::MessageHeader&) {
            self->Check(received);
            self->Release();
          });
    }
  }

  RunClient& client_;
  net::Transport& transport_;
  const int task_;
  const uint64_t run_;
  const Deadline deadline_;
  WorkerStub::RunDone done_;
  std::string request_;
  std::string bytes_;  // of the reply
  // The start holds it too.
  std::atomic<int> pending_{1};
  Mutex mu_;
  Status status_ LS_GUARDED_BY(mu_);
  RunReply reply_ LS_GUARDED_BY(mu_);
};

RunClient::RunClient(std::shared_ptr<net::Transport> transport)
    : transport_(std::move(transport)),
      // No two masters have a number in common.
      next_((static_cast<uint64_t>(transport_->self()) + 1) << 40) {}

RunClient::~RunClient() {
  const MutexLock lock(mu_);
  while (running_ > 0) {
    ended_.WaitUntil(mu_, Deadline::Infinite());
  }
}

void RunClient::OnEnd() {
  const MutexLock lock(mu_);
  --running_;
  ended_.NotifyAll();
}

std::function<void()> RunClient::Run(int task, const WorkerRun& run,
                                     const std::vector<Tensor>& feeds, WorkerStub::RunDone done) {
  {
    const MutexLock lock(mu_);
    ++running_;
  }
  const auto call =
      std::make_shared<Call>(*this, task, next_.fetch_add(1), run.deadline, std::move(done));
  call->Start(run, feeds);
  return [weak = std::weak_ptr<Call>(call)] {
    if (const std::shared_ptr<Call> running = weak.lock()) {
      running->Fail(Cancelled("the task was given up"));
    }
  };
}

}  // namespace lockstep::cluster::internal
