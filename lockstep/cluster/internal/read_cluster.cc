#include "lockstep/cluster/internal/read_cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "lockstep/base/quote.h"
#include "lockstep/base/suggest.h"

namespace lockstep::cluster::internal {
namespace {

constexpr std::array<std::string_view, 5> kRoles = {"chief", "master", "worker", "ps", "evaluator"};

Status CheckRole(std::string_view name, const Position& at, const Document& document,
                 JobNames names) {
  if (names == JobNames::kRoles) {
    if (std::find(kRoles.begin(), kRoles.end(), name) == kRoles.end()) {
      return FaultAt(document, at,
                     fmt::format("unknown job {}{}: allowed are {}", Quoted(name),
                                 DidYouMeanRole(name), fmt::join(kRoles, ", ")));
    }
    return OkStatus();
  }
  const Status good = CheckJobName(name);
  return good.ok() ? good : FaultAt(document, at, good.message());
}

Result<net::Address> ReadAddress(const Node& node, const TaskId& id, const Document& document) {
  if (node.kind != Node::Kind::kString) {
    return FaultAt(document, node.at,
                   fmt::format("{}: found {}, an address \"host:port\" is expected", id.ToString(),
                               Found(node)));
  }
  Result<net::Address> address = net::Address::Parse(node.text);
  if (!address.ok()) {
    return FaultAt(document, node.at,
                   fmt::format("{}: {}", id.ToString(), address.status().message()));
  }
  return address;
}

// Refuses an address that another task has, at the place of the second.
class AddressBook {
 public:
  explicit AddressBook(const Document& document) : document_(document) {}

  Status Add(const net::Address& address, const TaskId& id, const Position& at) {
    const auto [it, is_new] = seen_.emplace(address.AsIpv4(), id);
    if (!is_new) {
      return FaultAt(document_, at,
                     fmt::format("{} has the address {}, which {} has already", id.ToString(),
                                 address.ToString(), it->second.ToString()));
    }
    return OkStatus();
  }

 private:
  const Document& document_;
  std::map<net::Address, TaskId> seen_;
};

Status ReadJob(const Member& member, const Document& document, AddressBook& book,
               ClusterSpec::SparseJob& job) {
  const Node& node = member.value;
  const auto add = [&](int index, const Node& value) -> Status {
    const TaskId id{member.key, index};
    LS_ASSIGN_OR_RETURN(net::Address address, ReadAddress(value, id, document));
    // Without a port is the business of who makes the cluster.
    if (const Status good = CheckTaskAddress(id, address, net::PortZero::kAllowed); !good.ok()) {
      return FaultAt(document, value.at, good.message());
    }
    LS_TRY(book.Add(address, id, value.at));
    job.emplace(index, std::move(address));
    return OkStatus();
  };
  if (node.items.size() > kMaxTasks || node.members.size() > kMaxTasks) {
    return FaultAt(document, node.at, fmt::format("more than {} tasks", kMaxTasks));
  }
  switch (node.kind) {
    case Node::Kind::kNull:
      return OkStatus();
    case Node::Kind::kArray:
      for (const Node& item : node.items) {
        LS_TRY(add(static_cast<int>(job.size()), item));
      }
      return OkStatus();
    case Node::Kind::kObject:
      for (const Member& task : node.members) {
        int64_t index = 0;
        if (!WholeNumber(task.key, kMaxTasks - 1, index)) {
          return FaultAt(document, task.at,
                         fmt::format("/job:{}: found the key {}, a task index of 0 to {} is "
                                     "expected",
                                     member.key, Quoted(task.key), kMaxTasks - 1));
        }
        LS_TRY(add(static_cast<int>(index), task.value));
      }
      return OkStatus();
    default:
      return FaultAt(document, node.at,
                     fmt::format("/job:{}: found {}, a list of addresses [\"host:port\", ...] is "
                                 "expected",
                                 member.key, Found(node)));
  }
}

}  // namespace

Status CheckTaskAddress(const TaskId& id, const net::Address& address, net::PortZero zero) {
  if (address.unspecified()) {
    return InvalidArgument(fmt::format(
        "{}: the address {} names no host: others could not connect to it, and the task would "
        "listen on every interface",
        id.ToString(), address.ToString()));
  }
  if (address.port() == 0 && zero == net::PortZero::kRefused) {
    return InvalidArgument(fmt::format("{}: the address {} has no port that others could use",
                                       id.ToString(), address.ToString()));
  }
  return OkStatus();
}

std::string DidYouMeanRole(std::string_view name) {
  // What people call parameter servers; too far from "ps" for a distance of letters.
  constexpr std::array<std::string_view, 6> kServers = {
      "ps_hosts", "ps_host", "pserver", "pservers", "parameter_server", "parameter_servers"};
  if (std::find(kServers.begin(), kServers.end(), name) != kServers.end()) {
    return ", did you mean 'ps'?";
  }
  return DidYouMean(name, kRoles);
}

Status CheckKeys(const Node& object, std::string_view what, const Document& document,
                 std::span<const std::string_view> known) {
  for (const Member& member : object.members) {
    if (std::find(known.begin(), known.end(), member.key) == known.end()) {
      return FaultAt(document, member.at,
                     fmt::format("unknown key {} in {}{}: allowed are {}", Quoted(member.key), what,
                                 DidYouMean(member.key, known), fmt::join(known, ", ")));
    }
  }
  return OkStatus();
}

Result<ClusterSpec::Jobs> ReadJobs(const Node& node, const Document& document, JobNames names) {
  if (node.kind != Node::Kind::kObject) {
    return FaultAt(document, node.at,
                   fmt::format("the cluster: found {}, an object {{\"job\": [\"host:port\", ...]}} "
                               "is expected",
                               Found(node)));
  }
  ClusterSpec::Jobs jobs;
  AddressBook book(document);
  for (const Member& member : node.members) {
    LS_TRY(CheckRole(member.key, member.at, document, names));
    LS_TRY(ReadJob(member, document, book, jobs[member.key]));
  }
  return jobs;
}

Result<TaskId> ReadTask(const Node& node, const Document& document, JobNames names,
                        std::span<const std::string_view> ignored) {
  if (node.kind != Node::Kind::kObject) {
    return FaultAt(document, node.at,
                   fmt::format("task: found {}, an object {{\"type\": JOB, \"index\": N}} is "
                               "expected",
                               Found(node)));
  }
  std::vector<std::string_view> known = {"type", "index"};
  known.insert(known.end(), ignored.begin(), ignored.end());
  LS_TRY(CheckKeys(node, "task", document, known));
  const Node* type = node.Find("type");
  const Node* index = node.Find("index");
  if (type == nullptr || index == nullptr) {
    return FaultAt(
        document, node.at,
        fmt::format("task: the key '{}' is missing", type == nullptr ? "type" : "index"));
  }
  if (type->kind != Node::Kind::kString) {
    return FaultAt(document, type->at,
                   fmt::format("task.type: found {}, the name of a job is expected", Found(*type)));
  }
  LS_TRY(CheckRole(type->text, type->at, document, names));
  int64_t number = 0;
  if (index->kind != Node::Kind::kNumber || !WholeNumber(index->text, kMaxTasks - 1, number)) {
    const bool quoted =
        index->kind == Node::Kind::kString && WholeNumber(index->text, kMaxTasks - 1, number);
    return FaultAt(document, index->at,
                   fmt::format("task.index: found {}, a whole number of 0 to {} is expected{}",
                               Found(*index), kMaxTasks - 1, quoted ? " (without quotes)" : ""));
  }
  return TaskId{type->text, static_cast<int>(number)};
}

}  // namespace lockstep::cluster::internal
