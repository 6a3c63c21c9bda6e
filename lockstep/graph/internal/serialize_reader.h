// GraphReader: the steps of ParseGraph. First every node and collection is read and checked by
// itself, then names are resolved and the nodes sorted, at last the graph is made.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/graph/serialize.h"

namespace lockstep::proto {
class NodeDef;
}  // namespace lockstep::proto

namespace lockstep::internal {

class GraphReader {
 public:
  GraphReader(const OpCatalog& catalog, const ParseLimits& limits)
      : catalog_(catalog), limits_(limits) {}

  // Once for each reader.
  Result<std::unique_ptr<Graph>> Read(std::string_view bytes);

 private:
  // "name", "name:1", "^name".
  struct InputRef {
    std::string name;
    int output = 0;
    bool is_control = false;
  };

  struct NodeRecord {
    size_t offset = 0;
    // Without inputs, which may stand later in the file.
    NodeSpec spec;
    std::vector<InputRef> inputs;
    std::vector<int> producers;  // position of the record that each input names
    Node* node = nullptr;
  };

  struct Part {
    size_t offset = 0;
    std::string_view bytes;
    size_t bytes_offset = 0;
  };

  struct CollectionRecord {
    size_t offset = 0;
    std::string name;
    std::vector<InputRef> values;
  };

  // Finds the nodes and collections and checks the version.
  Status Split(std::string_view bytes);
  // Checks how many fields there are before they are built.
  Status CountFields(const Part& part, uint32_t edges_field);
  Status ReadNode(const Part& part);
  Status ReadInputs(const proto::NodeDef& message, NodeRecord& record) const;
  Status ReadAttrs(const proto::NodeDef& message, NodeRecord& record) const;
  Status ReadCollection(const Part& part);
  Status CheckName(std::string_view name) const;
  Status CheckOp(std::string_view name) const;
  Result<InputRef> ParseInput(std::string_view text, bool may_be_control) const;
  Status ResolveInputs();
  // Positions of the records, each after its inputs.
  Result<std::vector<int>> SortNodes() const;
  Status MakeNodes(const std::vector<int>& order, Graph& graph);
  Status MakeCollections(Graph& graph) const;

  // "node 3 'conv1' (byte 120): inputs[1]: ...".
  Status NodeError(const NodeRecord& record, std::string_view field, const Status& status) const;

  const OpCatalog& catalog_;
  const ParseLimits& limits_;
  size_t edges_ = 0;
  std::vector<Part> node_parts_;
  std::vector<Part> collection_parts_;
  std::vector<NodeRecord> nodes_;
  std::vector<CollectionRecord> collections_;
  // Views of the names in nodes_. Not hashed: nobody may choose names that collide.
  std::map<std::string_view, int> by_name_;
};

}  // namespace lockstep::internal
