// Session: runs parts of a graph on the devices of this process. Plans are compiled once per
// signature (feeds with their shapes, fetches, targets) and cached. A signature whose nodes are
// placed on several devices is cut into parts, which run at the same time. Thread-safe.
//
//   LS_ASSIGN_OR_RETURN(auto session, Session::Create(graph, {}));
//   LS_TRY(session->Initialize());
//   LS_ASSIGN_OR_RETURN(std::vector<Tensor> out, session->Run({{x, batch}}, {loss}, {train_op}));
//
// A loop prepares its signature once: Callable::Run skips the lookup.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/base/mutex.h"
#include "lockstep/exec/device.h"
#include "lockstep/exec/partial_runs.h"
#include "lockstep/exec/placed_step.h"
#include "lockstep/exec/plan.h"
#include "lockstep/exec/variable_store.h"
#include "lockstep/graph/graph.h"

namespace lockstep::exec {

class LocalPlacement;
class LocalRendezvous;
class StepThreads;

struct SessionOptions {
  int devices = 1;
  // Threads that one kernel may use on a device.
  int threads_per_device = 1;
  // Root of all randomness.
  uint64_t seed = 0;
};

struct Signature {
  std::vector<Value> feeds;  // placeholders, or any values to replace
  std::vector<Value> fetches;
  std::vector<Node*> targets;
  // Ran before, in earlier parts of the same step: pass::Specialize.
  std::vector<Node*> done = {};

  friend bool operator==(const Signature&, const Signature&) = default;
};

// What the callables of a session share to run signatures on several devices.
struct PlacedEnv {
  LocalPlacement* placement;
  std::span<const std::unique_ptr<Device>> devices;
  StepThreads* threads;
  LocalRendezvous* rendezvous;
  // Numbers of placed steps.
  std::atomic<uint64_t>* next_step;
};

// A prepared signature on one device, or on those where its nodes are placed. Plans for new feed
// shapes are compiled when first met. Runs of one callable, and of callables of one device, exclude
// each other.
class Callable {
  // Only a session can make one.
  struct Token {
    explicit Token() = default;
  };

 public:
  // `placed` null: everything on `device`.
  Callable(Token, const Graph& graph, VariableStore& store, Device& device, Signature signature,
           const PlacedEnv* placed)
      : graph_(graph),
        store_(store),
        device_(device),
        signature_(std::move(signature)),
        placed_(placed) {}

  // One tensor per feed and per fetch of the signature; a fetch that holds a fitting tensor of
  // nobody else is reused. `profile` and `on_fetched` are for signatures on one device.
  Status Run(std::span<const Tensor> feeds, std::span<Tensor> fetches, const StepInfo& info,
             StepProfile* profile = nullptr, const FetchListener& on_fetched = nullptr)
      LS_EXCLUDES(mu_);

  // The plan for these feeds, compiled if need be. FAILED_PRECONDITION if they run on several
  // devices.
  Result<const Plan*> PlanFor(std::span<const Tensor> feeds) LS_EXCLUDES(mu_);

 private:
  friend class Session;

  struct Entry {
    std::vector<Shape> shapes;
    // One of the two.
    std::unique_ptr<Plan> plan;
    std::unique_ptr<PlacedStep> step;
  };

  Status CheckFeeds(std::span<const Tensor> feeds) const;
  Result<Entry*> Lookup(std::span<const Tensor> feeds) LS_REQUIRES(mu_);
  Result<Entry> Compile(std::span<const Tensor> feeds) const;
  // The parts on their devices.
  Result<std::unique_ptr<PlacedStep>> CompileParts(const pass::SpecializedGraph& graph) const;
  Status RunPlaced(PlacedStep& step, std::span<const Tensor> feeds, std::span<Tensor> fetches,
                   const StepInfo& info) const;

  const Graph& graph_;
  VariableStore& store_;
  Device& device_;
  const Signature signature_;
  const PlacedEnv* const placed_;
  Mutex mu_;
  std::vector<Entry> plans_ LS_GUARDED_BY(mu_);
};

class Session {
  // Only Create can make one.
  struct Token {
    explicit Token() = default;
  };

 public:
  using FeedList = std::vector<std::pair<Value, Tensor>>;

  // The graph must outlive the session and may grow while no call is running. `store` null: the
  // session has variables of its own. Devices named in the graph must exist.
  static Result<std::unique_ptr<Session>> Create(const Graph& graph, const SessionOptions& options,
                                                 std::shared_ptr<VariableStore> store = nullptr);

  Session(Token, const Graph& graph, const SessionOptions& options,
          std::shared_ptr<VariableStore> store);

  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  // Runs every assignment in the graph's collection of initialisers.
  Status Initialize();

  // One tensor for each fetch. Steps count up with each call; random ops depend on them.
  Result<std::vector<Tensor>> Run(const FeedList& feeds, const std::vector<Value>& fetches,
                                  const std::vector<Node*>& targets = {});

  // The same by name, as "name" or "name:1".
  Result<std::vector<Tensor>> RunByName(const std::vector<std::pair<std::string, Tensor>>& feeds,
                                        const std::vector<std::string>& fetches,
                                        const std::vector<std::string>& targets = {});

  // A step whose feeds and fetches come in several calls: pass::PartialStep. `whole` is all that it
  // will be given and asked for, within `deadline`. Returns the number of the run.
  Result<uint64_t> PartialRunSetup(const Signature& whole, const Deadline& deadline);

  // Runs what these need and what did not run yet. The run ends when everything was fetched, with
  // an error of an op, and with its deadline. INVALID_ARGUMENT, after which it goes on, for a feed
  // or fetch that is not its own or came before, or that needs a feed which is still to come;
  // ABORTED for a run that has ended.
  Result<std::vector<Tensor>> PartialRun(uint64_t run, const FeedList& feeds,
                                         const std::vector<Value>& fetches,
                                         const std::vector<Node*>& targets = {});

  // Runs where the nodes are placed, by default on the first device. Lives as long as the session.
  // Asking again for the same returns the same.
  Result<Callable*> Prepare(const Signature& signature);

  // Runs whole on one device, wherever the nodes are placed.
  Result<Callable*> Prepare(const Signature& signature, int device);

  VariableStore& variables() const { return *store_; }

  int num_devices() const { return static_cast<int>(devices_.size()); }

  const SessionOptions& options() const { return options_; }

 private:
  static constexpr int kPlaced = -1;

  Status CheckDevices() const;
  Status CheckSignature(const Signature& signature) const;
  Result<Callable*> PrepareOn(const Signature& signature, int device);

  const Graph& graph_;
  const SessionOptions options_;
  const std::shared_ptr<VariableStore> store_;
  std::vector<std::unique_ptr<Device>> devices_;
  const std::unique_ptr<LocalPlacement> placement_;
  const std::unique_ptr<LocalRendezvous> rendezvous_;
  const std::unique_ptr<StepThreads> threads_;
  std::atomic<uint64_t> next_placed_step_{0};
  PlacedEnv placed_env_;
  std::atomic<int64_t> next_step_{0};
  PartialRuns partial_runs_;
  Mutex mu_;

  struct Prepared {
    Signature signature;
    int device;
    std::unique_ptr<Callable> callable;
  };

  std::vector<Prepared> callables_ LS_GUARDED_BY(mu_);
};

}  // namespace lockstep::exec
