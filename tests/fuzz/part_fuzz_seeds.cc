// part_fuzz_seeds FOLDER: replaces FOLDER by one with the parts that the search starts from: those
// of a graph on two devices with a feed, a variable, transfers both ways, a shape and a fetch.
#include <fmt/format.h>

#include "lockstep/base/file.h"
#include "lockstep/graph/builder.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/broadcast_like.h"
#include "lockstep/op/catalog.h"
#include "lockstep/op/const.h"
#include "lockstep/op/matmul.h"
#include "lockstep/op/placeholder.h"
#include "lockstep/op/unary.h"
#include "lockstep/op/variable.h"
#include "lockstep/pass/serialize_part.h"
#include "tests/fuzz/part_fuzz_device.h"
#include "tests/fuzz/seeds_main.h"

namespace lockstep {
namespace {

Result<pass::PartitionedGraph> BuildParts() {
  Graph graph(op::Catalog());
  Builder b(graph);
  Value x;
  Value y;
  {
    const DeviceScope scope(b, testing::kOtherPartDevice);
    x = op::Placeholder(b, DType::kFloat32, Shape{4, 4}, "x");
    y = op::Neg(b, x);
  }
  Value far;
  Value update;
  {
    const DeviceScope scope(b, testing::kPartDevice);
    const Value v = op::Variable(b, "v", op::Const(b, Tensor::Zeros(DType::kFloat32, Shape{4, 4})));
    far = op::MatMul(b, op::Add(b, x, y), v);
    update = op::AssignAdd(b, v, op::BroadcastLike(b, op::Scalar(b, 1), op::Exp(b, x)));
  }
  const DeviceScope scope(b, testing::kOtherPartDevice);
  const Value back = op::Abs(b, far);
  LS_TRY(b.status());
  for (const auto& node : graph.nodes()) {
    if (node->device.empty()) {
      node->device = testing::kPartDevice;
    }
  }
  const pass::Feed feeds[] = {{x, DType::kFloat32, Shape{4, 4}}};
  const Value fetches[] = {back, far};
  Node* const targets[] = {update.node};
  LS_ASSIGN_OR_RETURN(const pass::SpecializedGraph specialized,
                      pass::Specialize(graph, feeds, fetches, targets));
  return pass::Partition(specialized, {});
}

Status WriteSeeds(const std::string& folder) {
  LS_ASSIGN_OR_RETURN(const pass::PartitionedGraph graph, BuildParts());
  for (size_t i = 0; i < graph.parts.size(); ++i) {
    LS_ASSIGN_OR_RETURN(const std::string bytes, pass::SerializePart(graph.parts[i]));
    if (graph.parts[i].device == testing::kPartDevice) {
      LS_TRY(pass::ParsePart(bytes, op::Catalog(), {}, testing::kPartDevice).status());
    }
    LS_TRY(WriteFileAtomic(fmt::format("{}/part_{}", folder, i), bytes));
  }
  return OkStatus();
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  return lockstep::SeedsMain(argc, argv, lockstep::WriteSeeds);
}
