// PeerLinks: the links of one task, made when they are first needed, each over the best kind that
// both ends have: shm between processes of one host, else ucx, else grpc. A kind that turns out not
// to work is passed over, and `note` is told why; with one kind only, that is an error.
//
//   LS_ASSIGN_OR_RETURN(auto links, PeerLinks::Create(options, book));
//   LS_TRY(links->Connect({{.peer = 2, .incarnation = i}}, deadline));   // task 2 does the same
//   links->transport()->Send(2, ...);
//
// Both ends of a link must call Connect for each other at about the same time; a link that there is
// stays. Thread-safe: several calls, for some of the same peers too, may run at a time.
// Errors: DeadlineExceeded that names who did not connect, FailedPrecondition when two tasks have
// no kind of link in common, what a kind that is the only one says.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lockstep/base/mutex.h"
#include "lockstep/net/wire_up.h"

namespace lockstep::net {

// Where tasks tell each other their addresses, over connections that are trusted already.
class AddressBook {
 public:
  virtual ~AddressBook() = default;
  // What this task says about a topic; once.
  virtual Status Put(const std::string& topic, std::string text, const Deadline& deadline) = 0;
  // What this incarnation of a peer says; waits for it.
  virtual Result<std::string> Get(PeerId peer, uint64_t incarnation, const std::string& topic,
                                  const Deadline& deadline) = 0;
  // OK unless this incarnation is known to be gone.
  virtual Status PeerStatus(PeerId peer, uint64_t incarnation) = 0;
};

struct PeerLinksOptions {
  PeerId self = 0;
  std::vector<std::string> tasks;  // names, in the order of PeerId
  uint64_t incarnation = 0;
  std::string job_secret;
  // What this task offers. Made when a peer needs them.
  std::vector<LinkChoice> links;
  internal::ReactorOptions reactor;
  // A kind that may be replaced by another one must connect within this time, once all peers have
  // said where they are.
  std::chrono::milliseconds patience{5000};
  // As WireUpOptions::heartbeat.
  std::chrono::milliseconds heartbeat{5000};
  // Told of every link, and of what was passed over. May be empty.
  std::function<void(const std::string&)> note;
};

class PeerLinks {
 public:
  struct Peer {
    PeerId peer = 0;
    uint64_t incarnation = 0;
  };

  // `book` must outlive it.
  static Result<std::unique_ptr<PeerLinks>> Create(PeerLinksOptions options, AddressBook& book);

  PeerLinks(PeerLinksOptions options, AddressBook& book, std::shared_ptr<Transport> transport,
            internal::Reactor& reactor);
  PeerLinks(const PeerLinks&) = delete;
  PeerLinks& operator=(const PeerLinks&) = delete;

  const std::shared_ptr<Transport>& transport() const { return transport_; }

  // Returns when there are links to all of them.
  Status Connect(const std::vector<Peer>& peers, const Deadline& deadline) LS_EXCLUDES(mu_);

 private:
  // What a task says about itself before anything else.
  struct Offer {
    std::string host;
    std::vector<LinkKind> kinds;
  };

  // A peer on its way to a link.
  struct Candidate {
    Peer peer;
    // In common, best first.
    std::vector<LinkKind> kinds;
    // Kinds that did not work, and why.
    std::string passed_over;
  };

  static Result<Offer> ParseOffer(const std::string& text);

  const std::string& NameOf(PeerId peer) const { return options_.tasks[static_cast<size_t>(peer)]; }

  bool Connected(const Peer& peer) const;
  Status ConnectClaimed(const std::vector<Peer>& peers, const Deadline& deadline);
  Result<Candidate> Meet(const Peer& peer, const Deadline& deadline);
  // Tries one kind with all that have it as their best; takes it from those that it failed with.
  Status TryKind(LinkKind kind, std::vector<Candidate>& candidates, const Deadline& deadline)
      LS_EXCLUDES(mu_);
  Status PassOver(Candidate& candidate, const Status& why);
  // Says once what this task offers.
  Status PutOffer(const Deadline& deadline) LS_EXCLUDES(mu_);
  // Makes and announces it when first asked for; an error tells the peers too.
  Result<internal::LinkProvider*> ProviderOf(LinkKind kind, const Deadline& deadline)
      LS_EXCLUDES(make_mu_);
  Result<internal::PeerAddress> AddressOf(const Peer& peer, LinkKind kind,
                                          const Deadline& deadline);

  const PeerLinksOptions options_;
  AddressBook& book_;
  const std::shared_ptr<Transport> transport_;
  internal::Reactor& reactor_;
  const internal::TaskIdentity identity_;

  Mutex mu_;
  CondVar changed_;
  bool offered_ LS_GUARDED_BY(mu_) = false;
  std::set<PeerId> claimed_ LS_GUARDED_BY(mu_);  // somebody connects them

  Mutex make_mu_;
  Offer offer_ LS_GUARDED_BY(make_mu_);
  std::map<LinkKind, Result<internal::LinkProvider*>> providers_ LS_GUARDED_BY(make_mu_);
};

}  // namespace lockstep::net
