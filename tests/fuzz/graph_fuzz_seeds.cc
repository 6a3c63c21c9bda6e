// graph_fuzz_seeds FOLDER: replaces FOLDER by one with the graphs that the search starts from: an
// empty one, the sample graph, and for each op one node with the inputs of its first sample.
#include <fmt/format.h>

#include "lockstep/base/file.h"
#include "lockstep/graph/serialize.h"
#include "tests/fuzz/fuzz_catalog.h"
#include "tests/fuzz/seeds_main.h"

namespace lockstep {
namespace {

Status Write(const Graph& graph, const std::string& path) {
  LS_ASSIGN_OR_RETURN(const std::string bytes, SerializeGraph(graph));
  return WriteFileAtomic(path, bytes);
}

Status BuildOpGraph(const OpDef& op, const Sample& sample, Builder& builder) {
  const BuildContext ctx(builder, {"seed.cc", 1});
  std::vector<Value> inputs;
  for (const SampleInput& input : sample.inputs) {
    const bool variable = op.Writes(static_cast<int>(inputs.size()));
    AttrMap attrs = {{"shape", input.shape}};
    if (!variable) {
      attrs.Set("dtype", input.dtype);
    }
    inputs.push_back(ctx.Add(variable ? "TestVariable" : "TestInput", {}, std::move(attrs), "in"));
  }
  ctx.AddNode(op.name, std::move(inputs), sample.attrs, "out");
  return builder.status();
}

Status WriteSeeds(const std::string& folder, const OpCatalog& catalog) {
  const Graph empty(catalog);
  LS_TRY(Write(empty, folder + "/empty"));
  Graph sample_graph(catalog);
  Builder builder(sample_graph);
  testing::BuildSampleGraph(builder);
  LS_TRY(builder.status());
  LS_TRY(Write(sample_graph, folder + "/sample"));
  for (const OpDef& op : catalog.ops()) {
    const std::vector<Sample> samples =
        op.samples == nullptr || op.internal ? std::vector<Sample>() : op.samples();
    if (!samples.empty()) {
      Graph graph(catalog);
      Builder op_builder(graph);
      LS_TRY(BuildOpGraph(op, samples.front(), op_builder));
      LS_TRY(Write(graph, fmt::format("{}/op_{}", folder, op.name)));
    }
  }
  return OkStatus();
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  return lockstep::SeedsMain(argc, argv, [](const std::string& folder) {
    return lockstep::WriteSeeds(folder, lockstep::testing::FuzzCatalog());
  });
}
