#include "lockstep/cluster/coordinator/key_value_store.h"

#include <fmt/format.h>

#include <iterator>

#include "lockstep/base/quote.h"

namespace lockstep::cluster {

Status KeyValueStore::Insert(const std::string& key, std::string value, bool overwrite,
                             Calls& calls) {
  if (key.empty() || key.size() > kMaxKeyBytes) {
    return InvalidArgument(
        fmt::format("a key has 1 to {} bytes, found {}", kMaxKeyBytes, key.size()));
  }
  if (value.size() > kMaxValueBytes) {
    return ResourceExhausted(fmt::format("the value of {} has {} bytes, at most {}", Quoted(key),
                                         value.size(), kMaxValueBytes));
  }
  const auto found = values_.find(key);
  const size_t before = found == values_.end() ? 0 : key.size() + found->second.size();
  if (before != 0 && !overwrite) {
    return AlreadyExists(fmt::format("the key {} has a value", Quoted(key)));
  }
  const size_t bytes = bytes_ - before + key.size() + value.size();
  if (bytes > kMaxBytes) {
    return ResourceExhausted(
        fmt::format("with {} the job's shared values would have {} bytes, at most {}", Quoted(key),
                    bytes, kMaxBytes));
  }
  bytes_ = bytes;
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    if (it->key == key) {
      calls.push_back([done = std::move(it->done), value] { done(value); });
      it = waiting_.erase(it);
    } else {
      ++it;
    }
  }
  values_[key] = std::move(value);
  return OkStatus();
}

void KeyValueStore::Get(const std::string& key, const Deadline& deadline, Done done, Calls& calls) {
  const auto found = values_.find(key);
  if (found != values_.end()) {
    calls.push_back([done = std::move(done), value = found->second] { done(value); });
  } else if (deadline.expired()) {
    calls.push_back([done = std::move(done), key] {
      done(NotFound(fmt::format("the key {} has no value", Quoted(key))));
    });
  } else {
    waiting_.push_back({key, deadline, std::move(done)});
  }
}

KeyValueStore::Entries KeyValueStore::List(const std::string& prefix) const {
  Entries entries;
  for (auto it = values_.lower_bound(prefix);
       it != values_.end() && it->first.compare(0, prefix.size(), prefix) == 0; ++it) {
    entries.emplace_back(it->first, it->second);
  }
  return entries;
}

int KeyValueStore::Delete(const std::string& key, bool directory) {
  int deleted = 0;
  for (auto it = values_.lower_bound(key);
       it != values_.end() &&
       (directory ? it->first.compare(0, key.size(), key) == 0 : it->first == key);) {
    bytes_ -= it->first.size() + it->second.size();
    it = values_.erase(it);
    ++deleted;
  }
  return deleted;
}

void KeyValueStore::Expire(Deadline::Clock::time_point now, Calls& calls) {
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    if (it->deadline.when() > now) {
      ++it;
      continue;
    }
    calls.push_back([done = std::move(it->done), key = it->key] {
      done(DeadlineExceeded(fmt::format("nobody has set the key {}", Quoted(key))));
    });
    it = waiting_.erase(it);
  }
}

void KeyValueStore::FailAll(const Status& why, Calls& calls) {
  for (Waiting& waiting : waiting_) {
    calls.push_back([done = std::move(waiting.done), why] { done(why); });
  }
  waiting_.clear();
}

}  // namespace lockstep::cluster
