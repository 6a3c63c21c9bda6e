#include "lockstep/cluster/resolver/mpi.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "lockstep/base/quote.h"
#include "lockstep/cluster/internal/document.h"
#include "lockstep/cluster/internal/rank_layout.h"
#include "lockstep/cluster/resolver/host_list.h"

namespace lockstep::cluster {
namespace {

using internal::FindVariable;
using internal::IntVariable;
using internal::RankPlace;

constexpr std::string_view kHowToGiveHosts =
    "give the same list of hosts to every task with --hosts or --host-file, or the whole cluster "
    "with --cluster";

// The variable, or nothing if it is not set.
Result<std::optional<int>> OptionalInt(const Variables& variables, std::string_view name) {
  Result<int> value = IntVariable(variables, name, kMaxTasks);
  if (value.ok()) {
    return std::optional<int>(*value);
  }
  if (value.status().code() == StatusCode::kNotFound) {
    return std::optional<int>();
  }
  return value.status();
}

// Splits at commas that stand outside of brackets.
std::vector<std::string_view> SplitList(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == ',' && depth == 0)) {
      parts.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    } else {
      depth += text[i] == '[' ? 1 : text[i] == ']' ? -1 : 0;
    }
  }
  return parts;
}

Result<int> ParseSlots(std::string_view text) {
  int64_t slots = 0;
  if (!internal::WholeNumber(text, kMaxTasks, slots) || slots == 0) {
    return InvalidArgument(
        fmt::format("slots {}: a whole number of 1 to {} is expected", Quoted(text), kMaxTasks));
  }
  return static_cast<int>(slots);
}

// Fills the hosts in order with `size` ranks.
Result<std::vector<int>> FillHosts(const HostSlotsList& list, int size) {
  std::vector<int> counts;
  int left = size;
  for (const HostSlots& host : list.hosts) {
    counts.push_back(std::min(host.slots, left));
    left -= counts.back();
  }
  if (left > 0) {
    return InvalidArgument(fmt::format("there are {} tasks, but {} has slots for {} only", size,
                                       list.source, size - left));
  }
  return counts;
}

Result<Resolution> OnHosts(const HostSlotsList& list, const std::vector<RankPlace>& places,
                           int rank, const RankOptions& options) {
  std::vector<std::string> names;
  for (const HostSlots& host : list.hosts) {
    names.push_back(host.host);
  }
  LS_ASSIGN_OR_RETURN(Resolution resolution, internal::FromRanks(names, places, rank, options));
  resolution.facts.push_back({"hosts", fmt::format("{}", fmt::join(names, ",")), list.source});
  return resolution;
}

Status CheckLocal(const std::vector<RankPlace>& places, int rank, std::optional<int> local_rank,
                  std::optional<int> local_size, const std::string& source) {
  const RankPlace& place = places[static_cast<size_t>(rank)];
  const auto here = std::count_if(places.begin(), places.end(),
                                  [&](const RankPlace& other) { return other.node == place.node; });
  if ((local_rank && *local_rank != place.local) || (local_size && *local_size != here)) {
    return InvalidArgument(fmt::format(
        "by {}, rank {} is number {} of {} on its host; the launcher says number {} of {}: hosts "
        "must be listed in the order in which the launcher fills them",
        source, rank, place.local, here, local_rank.value_or(place.local),
        local_size ? std::to_string(*local_size) : "some"));
  }
  return OkStatus();
}

}  // namespace

Result<std::vector<HostSlots>> ParseHosts(std::string_view text) {
  std::vector<HostSlots> hosts;
  for (const std::string_view part : SplitList(text)) {
    const size_t colon = part.rfind(':');
    int slots = 1;
    if (colon != std::string_view::npos) {
      LS_ASSIGN_OR_RETURN(slots, ParseSlots(part.substr(colon + 1)));
    }
    LS_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                        ExpandHostList(part.substr(0, colon)));
    if (hosts.size() + names.size() > kMaxTasks) {
      return InvalidArgument(fmt::format("more than {} hosts", kMaxTasks));
    }
    for (const std::string& name : names) {
      hosts.push_back({name, slots});
    }
  }
  return hosts;
}

Result<std::vector<HostSlots>> ParseHostFile(std::string_view text, const std::string& path) {
  std::vector<HostSlots> hosts;
  size_t number = 0;
  while (!text.empty()) {
    const size_t newline = text.find('\n');
    std::string_view line = text.substr(0, newline);
    text.remove_prefix(newline == std::string_view::npos ? text.size() : newline + 1);
    ++number;
    line = line.substr(0, line.find('#'));
    std::vector<std::string_view> words;
    while (!line.empty()) {
      const size_t begin = line.find_first_not_of(" \t\r");
      if (begin == std::string_view::npos) {
        break;
      }
      line.remove_prefix(begin);
      const size_t end = line.find_first_of(" \t\r");
      words.push_back(line.substr(0, end));
      line.remove_prefix(words.back().size());
    }
    if (words.empty()) {
      continue;
    }
    HostSlots host{std::string(words[0]), 1};
    for (size_t i = 1; i < words.size(); ++i) {
      if (words[i].starts_with("slots=")) {
        const Result<int> slots = ParseSlots(words[i].substr(6));
        if (!slots.ok()) {
          return slots.status().With(fmt::format("{}:{}", path, number));
        }
        host.slots = *slots;
      } else if (!words[i].starts_with("max_slots=") && !words[i].starts_with("max-slots=")) {
        return InvalidArgument(fmt::format("{}:{}: found {}, a line is HOST [slots=N]", path,
                                           number, Quoted(words[i])));
      }
    }
    if (const auto address = net::Address::Make(host.host, 1); !address.ok()) {
      return InvalidArgument(
          fmt::format("{}:{}: {} is no host name", path, number, Quoted(host.host)));
    }
    if (hosts.size() == kMaxTasks) {
      return InvalidArgument(fmt::format("{}: more than {} hosts", path, kMaxTasks));
    }
    hosts.push_back(std::move(host));
  }
  if (hosts.empty()) {
    return InvalidArgument(fmt::format("{}: no hosts", path));
  }
  return hosts;
}

bool UnderOpenMpi(const Variables& variables) {
  return FindVariable(variables, "OMPI_COMM_WORLD_RANK") != nullptr;
}

bool UnderPmix(const Variables& variables) {
  return FindVariable(variables, "PMIX_RANK") != nullptr;
}

Result<Resolution> ResolveOpenMpi(const Variables& variables, const HostSlotsList& hosts,
                                  const RankOptions& options) {
  LS_ASSIGN_OR_RETURN(const int rank,
                      IntVariable(variables, "OMPI_COMM_WORLD_RANK", kMaxTasks - 1));
  const Result<int> size = IntVariable(variables, "OMPI_COMM_WORLD_SIZE", kMaxTasks, 1);
  if (!size.ok()) {
    return size.status().With("OMPI_COMM_WORLD_RANK is set");
  }
  if (rank >= *size) {
    return InvalidArgument(
        fmt::format("OMPI_COMM_WORLD_RANK is {}, but OMPI_COMM_WORLD_SIZE is {}", rank, *size));
  }
  LS_ASSIGN_OR_RETURN(const std::optional<int> local_size,
                      OptionalInt(variables, "OMPI_COMM_WORLD_LOCAL_SIZE"));
  LS_ASSIGN_OR_RETURN(const std::optional<int> local_rank,
                      OptionalInt(variables, "OMPI_COMM_WORLD_LOCAL_RANK"));
  HostSlotsList list = hosts;
  if (list.hosts.empty()) {
    if (local_size != size.value()) {
      return FailedPrecondition(fmt::format(
          "Open MPI started {} tasks, {} of them on this host, and does not say where the others "
          "are: {}",
          *size, local_size ? std::to_string(*local_size) : "an unknown number", kHowToGiveHosts));
    }
    list.hosts = {{"127.0.0.1", *size}};
    list.source = "all tasks are on this host: OMPI_COMM_WORLD_LOCAL_SIZE";
  }
  LS_ASSIGN_OR_RETURN(const std::vector<int> counts, FillHosts(list, *size));
  const std::vector<RankPlace> places = internal::PlaceRanks(counts, internal::kBlock);
  LS_TRY(CheckLocal(places, rank, local_rank, local_size, list.source));
  LS_ASSIGN_OR_RETURN(Resolution resolution, OnHosts(list, places, rank, options));
  resolution.family = "Open MPI";
  resolution.facts.push_back({"tasks", std::to_string(*size), "OMPI_COMM_WORLD_SIZE"});
  resolution.facts.push_back({"task", resolution.task->ToString(), "OMPI_COMM_WORLD_RANK"});
  return resolution;
}

Result<Resolution> ResolvePmix(const Variables& variables, const HostSlotsList& hosts,
                               const RankOptions& options) {
  LS_ASSIGN_OR_RETURN(const int rank, IntVariable(variables, "PMIX_RANK", kMaxTasks - 1));
  if (hosts.hosts.empty()) {
    return FailedPrecondition(fmt::format(
        "PMIx says that this is rank {}, but neither how many tasks there are nor where: {}", rank,
        kHowToGiveHosts));
  }
  int64_t size = 0;
  std::vector<int> counts;
  for (const HostSlots& host : hosts.hosts) {
    size += host.slots;
    counts.push_back(host.slots);
  }
  if (size > kMaxTasks || rank >= size) {
    return InvalidArgument(
        fmt::format("PMIX_RANK is {}, but {} has {} slots", rank, hosts.source, size));
  }
  LS_ASSIGN_OR_RETURN(
      Resolution resolution,
      OnHosts(hosts, internal::PlaceRanks(counts, internal::kBlock), rank, options));
  resolution.family = "PMIx";
  resolution.facts.push_back({"tasks", std::to_string(size), "the slots of the hosts"});
  resolution.facts.push_back({"task", resolution.task->ToString(), "PMIX_RANK"});
  return resolution;
}

}  // namespace lockstep::cluster
