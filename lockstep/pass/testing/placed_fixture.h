// What tests of partitions share: a graph whose ops are placed with scopes on the devices cpu:0,
// cpu:1... of one process.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/op/catalog.h"
#include "lockstep/pass/partition.h"
#include "lockstep/pass/place.h"

namespace lockstep::pass {

class PlacedFixture : public ::testing::Test {
 protected:
  static constexpr int kDevices = 3;

  static DeviceSet Devices() {
    std::vector<DeviceAttributes> devices;
    for (int i = 0; i < kDevices; ++i) {
      devices.push_back({.name = LocalDeviceName(i)});
    }
    return DeviceSet::Create(std::move(devices), LocalDeviceName(0), {}).value();
  }

  Result<PartitionedGraph> TryPartition(const std::vector<Value>& feeds,
                                        const std::vector<Value>& fetches,
                                        const std::vector<Node*>& targets = {},
                                        const PartitionOptions& options = {}) {
    EXPECT_TRUE(b_.status().ok()) << b_.status().ToString();
    LS_ASSIGN_OR_RETURN(const Placement placement, Place(graph_, Devices(), {}));
    std::vector<Feed> shapes;
    for (const Value& feed : feeds) {
      shapes.push_back({feed, feed.dtype(), feed.shape()});
    }
    LS_ASSIGN_OR_RETURN(const SpecializedGraph graph,
                        Specialize(graph_, shapes, fetches, targets, placement.devices));
    return Partition(graph, options);
  }

  PartitionedGraph Partitioned(const std::vector<Value>& feeds, const std::vector<Value>& fetches,
                               const std::vector<Node*>& targets = {},
                               const PartitionOptions& options = {}) {
    Result<PartitionedGraph> parts = TryPartition(feeds, fetches, targets, options);
    EXPECT_TRUE(parts.ok()) << parts.status().ToString();
    return parts.ok() ? std::move(parts).value() : PartitionedGraph{};
  }

  // "Placeholder Recv(0) Add Send(1)": the ops of a part in order.
  static std::string Ops(const Part& part) {
    std::string text;
    for (const auto& node : part.graph.graph->nodes()) {
      text += text.empty() ? "" : " ";
      text += node->op->name;
      if (node->attrs.Find("transfer") != nullptr) {
        text += "(" + std::to_string(node->attrs.GetInt("transfer")) + ")";
      }
    }
    return text;
  }

  Graph graph_{op::Catalog()};
  Builder b_{graph_};
};

}  // namespace lockstep::pass
