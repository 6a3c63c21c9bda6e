// RequestIds: the requests that came lately, so that one that is repeated (its reply was lost) is
// refused instead of run twice. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_set>

namespace lockstep::cluster {

class RequestIds {
 public:
  explicit RequestIds(size_t remembered) : remembered_(remembered) {}

  // False if it came before. 0 is never remembered.
  bool Add(uint64_t id) {
    if (id == 0) {
      return true;
    }
    if (!known_.insert(id).second) {
      return false;
    }
    order_.push_back(id);
    if (order_.size() > remembered_) {
      known_.erase(order_.front());
      order_.pop_front();
    }
    return true;
  }

 private:
  const size_t remembered_;
  std::unordered_set<uint64_t> known_;
  std::deque<uint64_t> order_;
};

}  // namespace lockstep::cluster
