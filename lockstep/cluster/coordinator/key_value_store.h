// KeyValueStore: values that the tasks of a job share, by name: addresses, decisions, small state.
// A key is written once unless asked otherwise, and a read may wait until it is. Keys with '/' make
// folders, listed by prefix. Not thread-safe: guarded by the coordinator, and callbacks are handed
// back instead of called.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/base/result.h"

namespace lockstep::cluster {

class KeyValueStore {
 public:
  using Done = std::function<void(const Result<std::string>&)>;
  using Calls = std::vector<std::function<void()>>;
  using Entries = std::vector<std::pair<std::string, std::string>>;

  static constexpr size_t kMaxKeyBytes = 1024;
  static constexpr size_t kMaxValueBytes = size_t{16} << 20;
  // Keys and values together.
  static constexpr size_t kMaxBytes = size_t{256} << 20;

  // ALREADY_EXISTS for a key that is set, unless `overwrite`. RESOURCE_EXHAUSTED beyond the limits.
  Status Insert(const std::string& key, std::string value, bool overwrite, Calls& calls);

  // The value, now or when it is set; DEADLINE_EXCEEDED if it is not, and NOT_FOUND at once if the
  // deadline has passed already.
  void Get(const std::string& key, const Deadline& deadline, Done done, Calls& calls);

  // By key, those that start with `prefix`.
  Entries List(const std::string& prefix) const;

  // How many there were. `directory`: every key that starts with `key`.
  int Delete(const std::string& key, bool directory);

  void Expire(Deadline::Clock::time_point now, Calls& calls);
  void FailAll(const Status& why, Calls& calls);

 private:
  struct Waiting {
    std::string key;
    Deadline deadline;
    Done done;
  };

  std::map<std::string, std::string> values_;
  size_t bytes_ = 0;
  std::list<Waiting> waiting_;
};

}  // namespace lockstep::cluster
