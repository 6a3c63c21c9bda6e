// An address book in memory, for tests of PeerLinks.
#pragma once

#include <fmt/format.h>

#include <map>
#include <string>

#include "lockstep/base/mutex.h"
#include "lockstep/net/peer_links.h"

namespace lockstep::net::testing {

// What all tasks say, in memory.
class SharedBook {
 public:
  class End : public AddressBook {
   public:
    End(SharedBook& book, PeerId self, uint64_t incarnation)
        : book_(book), self_(self), incarnation_(incarnation) {}

    Status Put(const std::string& topic, std::string text, const Deadline&) override {
      const MutexLock lock(book_.mu_);
      book_.texts_[Key(self_, incarnation_, topic)] = std::move(text);
      book_.came_.NotifyAll();
      return OkStatus();
    }

    Result<std::string> Get(PeerId peer, uint64_t incarnation, const std::string& topic,
                            const Deadline& deadline) override {
      const MutexLock lock(book_.mu_);
      const std::string key = Key(peer, incarnation, topic);
      while (book_.texts_.count(key) == 0) {
        if (!book_.came_.WaitUntil(book_.mu_, deadline)) {
          return DeadlineExceeded("nobody has said " + key);
        }
      }
      return book_.texts_[key];
    }

    Status PeerStatus(PeerId, uint64_t) override { return OkStatus(); }

   private:
    static std::string Key(PeerId task, uint64_t incarnation, const std::string& topic) {
      return fmt::format("{}/{}/{}", task, incarnation, topic);
    }

    SharedBook& book_;
    const PeerId self_;
    const uint64_t incarnation_;
  };

 private:
  Mutex mu_;
  CondVar came_;
  std::map<std::string, std::string> texts_ LS_GUARDED_BY(mu_);
};

}  // namespace lockstep::net::testing
