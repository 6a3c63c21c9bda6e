// ParseGraph on arbitrary bytes: an error with a message, or a graph that can be printed, sorted,
// written and read again with the same bytes.
#include <cstddef>
#include <cstdint>

#include "lockstep/graph/graph_text.h"
#include "lockstep/graph/serialize.h"
#include "tests/fuzz/fuzz_catalog.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;  // NOLINT(google-build-using-namespace)
  static const OpCatalog catalog = testing::FuzzCatalog();
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto graph = ParseGraph(bytes, catalog, {});
  if (!graph.ok()) {
    LS_CHECK(!graph.status().message().empty());
    return 0;
  }
  LS_CHECK((*graph)->TopologicalOrder().ok());
  LS_CHECK((*graph)->nodes().empty() || !GraphToText(**graph).empty());
  const Result<std::string> written = SerializeGraph(**graph);
  LS_CHECK(written.ok());
  const auto again = ParseGraph(*written, catalog, {});
  LS_CHECK(again.ok());
  LS_CHECK(SerializeGraph(**again).value() == *written);
  return 0;
}
