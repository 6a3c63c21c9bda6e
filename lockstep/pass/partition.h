// Partition: cuts a placed, specialised graph into one part for each device. A value that another
// device needs crosses by a Send and a Recv (op/transfer.h): once for each (value, destination),
// however many consumers. A control input crosses as a transfer without elements.
//
// Order: the whole graph has one topological order, in which reads of a variable come before the
// writes that they must not see. The nodes of a part are in this order, a Send directly behind what
// it sends and a Recv directly before its first consumer, and a plan of a part keeps to it. So the
// first unfinished step of all parts never waits for anything: parts cannot block each other.
//
// What is not sent: small constants (copied), feeds (given to each part that needs them), inputs of
// which only the shape is used, and the news that a target without consumers has run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/pass/specialize.h"

namespace lockstep::pass {

// One tensor that goes from one device to another in every step.
struct Transfer {
  // The name of the value, "^name" for a control input.
  std::string value;
  // Full device names.
  std::string source;
  std::string destination;
  DType dtype = DType::kUInt8;
  Shape shape;
};

// Collections of a part's graph: its feeds and fetches in order.
inline constexpr std::string_view kFeedCollection = "feeds";
inline constexpr std::string_view kFetchCollection = "fetches";

struct Part {
  std::string device;
  // All feeds are valid. Every node is needed; all are on the device.
  SpecializedGraph graph;
  // For each feed and fetch of the part its position in the signature.
  std::vector<int> feeds;
  std::vector<int> fetches;
};

struct PartitionedGraph {
  // In order of device name.
  std::vector<Part> parts;
  // By transfer number.
  std::vector<Transfer> transfers;
};

struct PartitionOptions {
  // Constants up to this size are copied into each part that needs them.
  size_t max_copied_const_bytes = size_t{1} << 20;
};

// The nodes' devices must be full names, and what writes a variable must be on its device (both as
// Place gives them). Errors: variables that are exchanged without a copy in between.
Result<PartitionedGraph> Partition(const SpecializedGraph& graph, const PartitionOptions& options);

}  // namespace lockstep::pass
