// The parsers of what comes from the environment, from files and from flags, on arbitrary bytes: an
// error with a message, or a value that survives being written and read again. The first byte
// chooses the parser. Files in TOML are left out: toml++ 3.3 asserts on malformed text of many
// kinds.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/base/macros.h"
#include "lockstep/cluster/resolver/description.h"
#include "lockstep/cluster/resolver/host_list.h"
#include "lockstep/cluster/resolver/mpi.h"
#include "lockstep/cluster/resolver/tf_config.h"
#include "lockstep/net/address.h"

namespace {

using namespace lockstep;           // NOLINT(google-build-using-namespace)
using namespace lockstep::cluster;  // NOLINT(google-build-using-namespace)

void CheckMessage(const Status& status) {
  LS_CHECK(!status.message().empty());
  // Whatever the input: a line that a person can read.
  LS_CHECK(status.message().size() < 4096);
}

void CheckResolution(const Result<Resolution>& resolution) {
  if (!resolution.ok()) {
    CheckMessage(resolution.status());
    return;
  }
  const ClusterSpec& cluster = resolution->cluster;
  LS_CHECK(ClusterSpec::FromJson(cluster.ToJson()).value() == cluster);
  for (const ClusterSpec::Task& task : cluster.tasks()) {
    LS_CHECK(cluster.task_address(task.id).value() == task.address);
    LS_CHECK(TaskId::Parse(task.id.ToString()).value() == task.id);
  }
  if (resolution->task && !resolution->is_evaluator()) {
    LS_CHECK(cluster.NumberOf(*resolution->task).has_value());
  }
}

void CheckAddress(std::string_view text) {
  const Result<net::Address> address = net::Address::Parse(text, net::PortZero::kAllowed);
  if (!address.ok()) {
    CheckMessage(address.status());
    return;
  }
  const std::string canonical = address->ToString();
  LS_CHECK(net::Address::Parse(canonical, net::PortZero::kAllowed).value() == *address);
}

template <class T>
void CheckList(const Result<std::vector<T>>& list) {
  if (!list.ok()) {
    CheckMessage(list.status());
    return;
  }
  LS_CHECK(!list->empty() && list->size() <= kMaxTasks);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0]) {
    case 'a':
      CheckAddress(text);
      break;
    case 'c':
      CheckList(ExpandCounts(text));
      break;
    case 'f':
      CheckList(ParseHostFile(text, "hosts"));
      break;
    case 'h':
      CheckList(ExpandHostList(text));
      break;
    case 'j':
      CheckResolution(ResolveFile(text, "c.json"));
      break;
    case 'm':
      CheckList(ParseHosts(text));
      break;
    case 's':
      CheckResolution(ResolveSpecText(text));
      break;
    case 't':
      CheckResolution(ResolveTfConfig(text));
      break;
    default:
      break;
  }
  return 0;
}
