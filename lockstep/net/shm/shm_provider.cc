#include "lockstep/net/shm/shm_provider.h"

#include <fmt/format.h>
#include <limits.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <thread>
#include <utility>

#include "lockstep/base/file.h"
#include "lockstep/base/mutex.h"
#include "lockstep/net/internal/proof.h"
#include "lockstep/net/shm/shm_link.h"
#include "lockstep/net/shm/socket.h"

namespace lockstep::net {
namespace shm {
namespace {

using internal::Nonce;
using internal::Proof;

constexpr uint64_t kMagic = 0x31'4D48'5350'4B4C;  // "LKPSHM1"
constexpr auto kGreetingTimeout = std::chrono::seconds(2);

// Who connects: 1 Hello, 3 Commit with segment and event. Who accepts: 2 Challenge, 4 Accept with
// event.
struct Hello {
  uint64_t magic;
  int32_t from;
  int32_t to;
  uint64_t from_incarnation;
  uint64_t to_incarnation;
  Nonce nonce;
};

struct Challenge {
  uint64_t magic;
  Nonce nonce;
  Proof proof;
};

struct Transcript {
  Hello hello;
  Nonce nonce;
};

// Where the other end finds a known value in our memory, if it may read it.
struct Probe {
  uint64_t address;
  uint64_t value;
};

struct Commit {
  Proof proof;
  Probe probe;
};

struct Accept {
  uint64_t magic;
  Probe probe;
};

// Each end tells the other whether it can read its memory.
struct Verdict {
  uint64_t magic;
  uint64_t reads;
};

template <class T>
Result<Packet> Expect(int socket, T* message, size_t fds, const Deadline& deadline) {
  LS_ASSIGN_OR_RETURN(Packet packet, ReceivePacket(socket, deadline));
  if (packet.bytes.empty()) {
    return PermissionDenied("the other end refused the greeting");
  }
  if (packet.bytes.size() != sizeof(T) || packet.fds.size() != fds) {
    return Unauthenticated(fmt::format("a greeting of {} bytes where {} are expected",
                                       packet.bytes.size(), sizeof(T)));
  }
  std::memcpy(message, packet.bytes.data(), sizeof(T));
  return packet;
}

Status CheckProof(const Proof& proof, const std::string& secret, const char* role,
                  const Transcript& transcript) {
  LS_ASSIGN_OR_RETURN(const Proof expected, internal::MakeProof(secret, role, BytesOf(transcript)));
  return internal::SameProof(proof, expected)
             ? OkStatus()
             : Unauthenticated("the other end does not know the job's secret");
}

class Greeting {
 public:
  Greeting(const internal::TaskIdentity& identity, ShmOptions options)
      : identity_(identity), options_(options) {}

  // `event` wakes this task.
  Result<ShmConnection> Connect(const internal::PeerAddress& peer, int event,
                                const Deadline& deadline);

  struct Accepted {
    PeerId peer;
    ShmConnection connection;
  };

  Result<Accepted> Accept(Descriptor socket, const std::vector<internal::PeerAddress>& peers,
                          int event, const Deadline& deadline);

 private:
  Probe MyProbe() const {
    return {reinterpret_cast<uint64_t>(&identity_.incarnation), identity_.incarnation};
  }

  // The process whose memory can be read, or 0.
  pid_t TryRead(const PeerProcess& process, const Probe& probe) const;
  Status Verdicts(const PeerProcess& process, const Probe& probe, const Deadline& deadline,
                  ShmConnection* connection) const;

  const internal::TaskIdentity& identity_;
  ShmOptions options_;
};

pid_t Greeting::TryRead(const PeerProcess& process, const Probe& probe) const {
  if (!options_.direct_reads || process.pid <= 0) {
    return 0;
  }
  uint64_t value = 0;
  const iovec local{&value, sizeof(value)};
  const iovec remote{reinterpret_cast<void*>(probe.address), sizeof(value)};
  const ssize_t read = process_vm_readv(process.pid, &local, 1, &remote, 1, 0);
  return read == sizeof(value) && value == probe.value ? process.pid : 0;
}

Status Greeting::Verdicts(const PeerProcess& process, const Probe& probe, const Deadline& deadline,
                          ShmConnection* connection) const {
  connection->peer_pid = TryRead(process, probe);
  const Verdict mine{kMagic, connection->peer_pid != 0 ? uint64_t{1} : uint64_t{0}};
  LS_TRY(SendPacket(connection->socket.get(), BytesOf(mine), {}));
  Verdict theirs{};
  LS_TRY(Expect(connection->socket.get(), &theirs, 0, deadline).status());
  connection->peer_reads = theirs.reads == 1;
  return OkStatus();
}

Result<ShmConnection> Greeting::Connect(const internal::PeerAddress& peer, int event,
                                        const Deadline& deadline) {
  ShmConnection connection;
  connection.send_direction = 0;
  LS_ASSIGN_OR_RETURN(connection.socket, ConnectTo(peer.address));
  const int socket = connection.socket.get();
  LS_ASSIGN_OR_RETURN(const PeerProcess process, PeerOf(socket));
  if (process.uid != geteuid()) {
    return Unauthenticated(fmt::format("it belongs to user {}", process.uid));
  }
  Transcript transcript{};
  transcript.hello = {kMagic, identity_.self, peer.peer, identity_.incarnation, peer.incarnation,
                      {}};
  LS_ASSIGN_OR_RETURN(transcript.hello.nonce, internal::MakeNonce());
  LS_TRY(SendPacket(socket, BytesOf(transcript.hello), {}));
  Challenge challenge{};
  LS_TRY(Expect(socket, &challenge, 0, deadline).status());
  transcript.nonce = challenge.nonce;
  LS_TRY(CheckProof(challenge.proof, identity_.job_secret, "shm accepts", transcript));
  Commit commit{};
  LS_ASSIGN_OR_RETURN(
      commit.proof, internal::MakeProof(identity_.job_secret, "shm connects", BytesOf(transcript)));
  commit.probe = MyProbe();
  LS_ASSIGN_OR_RETURN(connection.segment, Segment::Create());
  LS_TRY(SendPacket(socket, BytesOf(commit), {connection.segment->fd(), event}));
  shm::Accept accept{};
  LS_ASSIGN_OR_RETURN(Packet packet, Expect(socket, &accept, 1, deadline));
  connection.peer_event = std::move(packet.fds[0]);
  LS_TRY(Verdicts(process, accept.probe, deadline, &connection));
  return connection;
}

Result<Greeting::Accepted> Greeting::Accept(Descriptor socket,
                                            const std::vector<internal::PeerAddress>& peers,
                                            int event, const Deadline& deadline) {
  Accepted accepted;
  ShmConnection& connection = accepted.connection;
  connection.send_direction = 1;
  connection.socket = std::move(socket);
  const int fd = connection.socket.get();
  LS_ASSIGN_OR_RETURN(const PeerProcess process, PeerOf(fd));
  if (process.uid != geteuid()) {
    return Unauthenticated(fmt::format("a process of user {} connects", process.uid));
  }
  Transcript transcript{};
  LS_TRY(Expect(fd, &transcript.hello, 0, deadline).status());
  const Hello& hello = transcript.hello;
  const auto known = std::find_if(peers.begin(), peers.end(), [&hello](const auto& peer) {
    return peer.peer == hello.from && peer.incarnation == hello.from_incarnation;
  });
  if (hello.magic != kMagic || hello.to != identity_.self ||
      hello.to_incarnation != identity_.incarnation || known == peers.end()) {
    return Unauthenticated("who connects is no task that is expected");
  }
  accepted.peer = hello.from;
  LS_ASSIGN_OR_RETURN(transcript.nonce, internal::MakeNonce());
  Challenge challenge{kMagic, transcript.nonce, {}};
  LS_ASSIGN_OR_RETURN(challenge.proof, internal::MakeProof(identity_.job_secret, "shm accepts",
                                                           BytesOf(transcript)));
  LS_TRY(SendPacket(fd, BytesOf(challenge), {}));
  Commit commit{};
  LS_ASSIGN_OR_RETURN(Packet packet, Expect(fd, &commit, 2, deadline));
  LS_TRY(CheckProof(commit.proof, identity_.job_secret, "shm connects", transcript));
  LS_ASSIGN_OR_RETURN(connection.segment, Segment::Map(packet.fds[0].get()));
  connection.peer_event = std::move(packet.fds[1]);
  LS_TRY(SendPacket(fd, BytesOf(shm::Accept{kMagic, MyProbe()}), {event}));
  LS_TRY(Verdicts(process, commit.probe, deadline, &connection));
  return accepted;
}

class ShmProvider : public internal::LinkProvider {
 public:
  ShmProvider(internal::TaskIdentity identity, internal::Reactor& reactor, ShmOptions options,
              Descriptor listener, Descriptor event, std::string address)
      : identity_(std::move(identity)),
        reactor_(reactor),
        options_(options),
        listener_(std::move(listener)),
        event_(std::move(event)),
        address_(std::move(address)) {}

  ~ShmProvider() override { reactor_.RemoveDescriptor(event_.get()); }

  Status Start() {
    return reactor_.AddDescriptor(event_.get(), [fd = event_.get()] {
      uint64_t value = 0;
      static_cast<void>(!read(fd, &value, sizeof(value)));
    });
  }

  LinkKind kind() const override { return LinkKind::kShm; }

  std::string address() const override { return address_; }

  Status Connect(internal::Engine& engine, const std::vector<internal::PeerAddress>& peers,
                 const Deadline& deadline) override;

 private:
  // A peer that is to connect.
  struct Expected {
    internal::PeerAddress address;
    bool ended = false;
    Status status;
  };

  // Waits for these; whoever of several callers accepts, accepts for all of them.
  Status AcceptAll(internal::Engine& engine, std::vector<internal::PeerAddress> missing,
                   const Deadline& deadline) LS_EXCLUDES(mu_);
  // Whoever connects next.
  Status AcceptOne(internal::Engine& engine, const Deadline& deadline) LS_EXCLUDES(mu_);
  // Takes those out of `missing` that have come; the first that could not be linked.
  Status TakeEnded(std::vector<internal::PeerAddress>& missing) LS_REQUIRES(mu_);
  Status GiveUp(const internal::Engine& engine, const std::vector<internal::PeerAddress>& missing,
                const Status& why) LS_REQUIRES(mu_);
  Result<ShmConnection> ConnectTo(Greeting& greeting, const internal::PeerAddress& peer,
                                  const Deadline& deadline);
  Status AttachLink(internal::Engine& engine, const internal::PeerAddress& peer,
                    ShmConnection connection);

  internal::TaskIdentity identity_;
  internal::Reactor& reactor_;
  ShmOptions options_;
  Descriptor listener_;
  Descriptor event_;
  std::string address_;
  Mutex mu_;
  CondVar changed_;
  std::map<PeerId, Expected> expected_ LS_GUARDED_BY(mu_);
  bool accepting_ LS_GUARDED_BY(mu_) = false;
  Status refused_ LS_GUARDED_BY(mu_);  // the last one
};

Status ShmProvider::AttachLink(internal::Engine& engine, const internal::PeerAddress& peer,
                               ShmConnection connection) {
  auto link =
      std::make_unique<ShmLink>(reactor_, engine.SinkFor(peer.peer), std::move(connection),
                                [&engine](uint64_t number) { return engine.FindRegion(number); });
  return engine.Attach(peer.peer, peer.incarnation, std::move(link));
}

Status ShmProvider::TakeEnded(std::vector<internal::PeerAddress>& missing) {
  Status status;
  for (auto peer = missing.begin(); peer != missing.end();) {
    const auto found = expected_.find(peer->peer);
    if (!found->second.ended) {
      ++peer;
      continue;
    }
    status = status.ok() ? found->second.status : status;
    expected_.erase(found);
    peer = missing.erase(peer);
  }
  return status;
}

Status ShmProvider::GiveUp(const internal::Engine& engine,
                           const std::vector<internal::PeerAddress>& missing, const Status& why) {
  std::string names;
  for (const internal::PeerAddress& peer : missing) {
    names += (names.empty() ? "" : ", ") + engine.tasks()[static_cast<size_t>(peer.peer)];
    expected_.erase(peer.peer);
  }
  const Status status(why.code(), fmt::format("did not connect over shared memory: {}", names));
  return refused_.ok() ? status : status.With("refused meanwhile: " + refused_.message());
}

Status ShmProvider::AcceptAll(internal::Engine& engine, std::vector<internal::PeerAddress> missing,
                              const Deadline& deadline) {
  {
    const MutexLock lock(mu_);
    for (const internal::PeerAddress& peer : missing) {
      expected_[peer.peer] = {peer, false, {}};
    }
  }
  Status accepted;
  for (;;) {
    {
      const MutexLock lock(mu_);
      const Status status = TakeEnded(missing);
      if (missing.empty()) {
        return status;
      }
      if (!status.ok()) {
        return GiveUp(engine, missing, status);
      }
      if (!accepted.ok() || deadline.expired()) {
        return GiveUp(engine, missing, accepted.ok() ? DeadlineExceeded("") : accepted);
      }
      if (accepting_) {
        changed_.WaitUntil(mu_, deadline);
        continue;
      }
      accepting_ = true;
    }
    accepted = AcceptOne(engine, deadline);
    const MutexLock lock(mu_);
    accepting_ = false;
    changed_.NotifyAll();
  }
}

Status ShmProvider::AcceptOne(internal::Engine& engine, const Deadline& deadline) {
  LS_ASSIGN_OR_RETURN(Descriptor socket, AcceptFrom(listener_.get(), deadline));
  std::vector<internal::PeerAddress> peers;
  {
    const MutexLock lock(mu_);
    for (const auto& [peer, expected] : expected_) {
      if (!expected.ended) {
        peers.push_back(expected.address);
      }
    }
  }
  // Whoever connects and says nothing keeps the others waiting for a moment only.
  Greeting greeting(identity_, options_);
  Result<Greeting::Accepted> accepted =
      greeting.Accept(std::move(socket), peers, event_.get(),
                      std::min(deadline, Deadline::After(kGreetingTimeout)));
  if (!accepted.ok()) {
    const MutexLock lock(mu_);
    refused_ = accepted.status();
    return OkStatus();
  }
  const auto peer = std::find_if(peers.begin(), peers.end(),
                                 [&](const auto& known) { return known.peer == accepted->peer; });
  const Status attached = AttachLink(engine, *peer, std::move(accepted->connection));
  const MutexLock lock(mu_);
  const auto found = expected_.find(accepted->peer);
  if (found != expected_.end()) {
    found->second.ended = true;
    found->second.status = attached;
  }
  return OkStatus();
}

Result<ShmConnection> ShmProvider::ConnectTo(Greeting& greeting, const internal::PeerAddress& peer,
                                             const Deadline& deadline) {
  constexpr std::chrono::milliseconds kLongestPause{20};
  for (std::chrono::milliseconds pause{1};; pause = std::min(2 * pause, kLongestPause)) {
    Result<ShmConnection> connection = greeting.Connect(peer, event_.get(), deadline);
    // It may accept already, and not expect this task yet.
    if (connection.status().code() != StatusCode::kPermissionDenied || deadline.expired()) {
      return connection;
    }
    std::this_thread::sleep_for(pause);
  }
}

Status ShmProvider::Connect(internal::Engine& engine,
                            const std::vector<internal::PeerAddress>& peers,
                            const Deadline& deadline) {
  std::vector<internal::PeerAddress> expected;
  for (const internal::PeerAddress& peer : peers) {
    if (peer.peer > identity_.self) {
      expected.push_back(peer);
    }
  }
  Status accepted;
  std::jthread accepting([&] { accepted = AcceptAll(engine, std::move(expected), deadline); });
  Status connected;
  Greeting greeting(identity_, options_);
  for (const internal::PeerAddress& peer : peers) {
    if (peer.peer >= identity_.self) {
      continue;
    }
    Result<ShmConnection> connection = ConnectTo(greeting, peer, deadline);
    const Status status =
        connection.ok()
            ? AttachLink(engine, peer, std::move(connection).value())
            : connection.status().With(fmt::format("shared memory with {}",
                                                   engine.tasks()[static_cast<size_t>(peer.peer)]));
    // One that cannot be reached does not keep the others from being linked.
    connected = connected.ok() ? status : connected;
  }
  accepting.join();
  return connected.ok() ? accepted : connected;
}

}  // namespace
}  // namespace shm

Result<std::unique_ptr<internal::LinkProvider>> MakeShmProvider(
    const internal::TaskIdentity& identity, internal::Reactor& reactor, ShmOptions options) {
  LS_ASSIGN_OR_RETURN(const internal::Nonce random, internal::MakeNonce());
  std::string name = "lockstep-";
  for (size_t i = 0; i < 16; ++i) {
    name += fmt::format("{:02x}", random[i]);
  }
  LS_ASSIGN_OR_RETURN(shm::Descriptor listener, shm::ListenAt(name));
  shm::Descriptor event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (event.get() < 0) {
    return ResourceExhausted(fmt::format("eventfd: {}", std::strerror(errno)));
  }
  auto provider = std::make_unique<shm::ShmProvider>(
      identity, reactor, options, std::move(listener), std::move(event), std::move(name));
  LS_TRY(provider->Start());
  return std::unique_ptr<internal::LinkProvider>(std::move(provider));
}

Result<std::string> HostIdentity() {
  LS_ASSIGN_OR_RETURN(std::string boot, ReadFile("/proc/sys/kernel/random/boot_id", 4096));
  while (!boot.empty() && boot.back() == '\n') {
    boot.pop_back();
  }
  char space[PATH_MAX];
  const ssize_t size = readlink("/proc/self/ns/net", space, sizeof(space));
  if (size <= 0) {
    return Unavailable(fmt::format("/proc/self/ns/net: {}", std::strerror(errno)));
  }
  return fmt::format("{} {}", boot, std::string(space, static_cast<size_t>(size)));
}

}  // namespace lockstep::net
