// A graph as text for people: one node a line, in order of creation. Not a format to read back.
//
//   x = Placeholder() {dtype: float32, shape: [?, 784]} -> float32 [?, 784]
//   y = Sum(x, x:1, ^init) {scale: 2} @/device:CPU:0 -> float32 [?, 784]  # model.cc:12
//   collection losses = y
#pragma once

#include <string>

#include "lockstep/graph/graph.h"

namespace lockstep {

// Tensors are cut to a few elements; control characters are escaped, so that a node is one line.
std::string GraphToText(const Graph& graph);

}  // namespace lockstep
