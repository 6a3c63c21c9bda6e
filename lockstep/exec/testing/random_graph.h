// RandomGraph: a small graph of random ops, variables, updates and control inputs, placed at
// random on a number of devices. The same for the same seed.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "lockstep/op/activation.h"
#include "lockstep/op/apply.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/broadcast_like.h"
#include "lockstep/op/catalog.h"
#include "lockstep/op/const.h"
#include "lockstep/op/group.h"
#include "lockstep/op/identity.h"
#include "lockstep/op/matmul.h"
#include "lockstep/op/placeholder.h"
#include "lockstep/op/random.h"
#include "lockstep/op/unary.h"
#include "lockstep/op/variable.h"

namespace lockstep::exec {

class RandomGraph {
 public:
  RandomGraph(uint32_t seed, int devices) : random_(seed), devices_(devices) {
    for (int i = 0; i < 3; ++i) {
      OnSomeDevice([&] { AddVariable(i); });
    }
    for (int i = 0; i < 2; ++i) {
      feeds.push_back(op::Placeholder(b, DType::kFloat32, Shape{-1, kWidth}));
      rows_.push_back(feeds.back());
    }
    const int nodes = Pick(10, 40);
    for (int i = 0; i < nodes; ++i) {
      OnSomeDevice([&] { AddNode(); });
    }
    for (int i = 0; i < 4; ++i) {
      fetches.push_back(Pick(0, 3) == 0 ? OneOf(squares_) : OneOf(rows_));
    }
    target = op::Group(b, updates_);
  }

  // [batch, kWidth] for each of `feeds`, different in every step.
  std::vector<Tensor> Feeds(int64_t batch) {
    std::vector<Tensor> tensors;
    for (size_t i = 0; i < feeds.size(); ++i) {
      std::vector<float> values(static_cast<size_t>(batch * kWidth));
      for (float& value : values) {
        value = static_cast<float>(Pick(-1000, 1000)) / 1000;
      }
      tensors.push_back(Tensor::From<float>(Shape{batch, kWidth}, values).value());
    }
    return tensors;
  }

  static constexpr int64_t kWidth = 5;

  Graph graph{op::Catalog()};
  Builder b{graph};
  std::vector<Value> feeds;
  std::vector<Value> fetches;
  Node* target = nullptr;

 private:
  int Pick(int low, int high) {
    // Not a distribution of the library, whose numbers differ between libraries.
    return low + static_cast<int>(random_() % static_cast<uint32_t>(high - low + 1));
  }

  Value OneOf(const std::vector<Value>& values) {
    return values[static_cast<size_t>(Pick(0, static_cast<int>(values.size()) - 1))];
  }

  template <class Function>
  void OnSomeDevice(const Function& function) {
    // Some nodes are left to the placement.
    const int device = Pick(-1, devices_ - 1);
    const DeviceScope scope(b, device < 0 ? "" : "cpu:" + std::to_string(device));
    std::vector<Value> controls;
    if (Pick(0, 4) == 0 && !rows_.empty()) {
      controls.push_back(Pick(0, 1) == 0 && !updates_.empty() ? OneOf(updates_) : OneOf(rows_));
    }
    const ControlScope control_scope(b, controls);
    function();
  }

  void AddVariable(int i) {
    std::vector<float> values(kWidth * kWidth);
    for (float& value : values) {
      value = static_cast<float>(Pick(-500, 500)) / 1000;
    }
    const Tensor initial = Tensor::From<float>(Shape{kWidth, kWidth}, values).value();
    const Value v = op::Variable(b, "v" + std::to_string(i), op::Const(b, initial));
    variables_.push_back(v);
    squares_.push_back(v);
  }

  void AddNode() {
    switch (Pick(0, 11)) {
      case 0:
        rows_.push_back(op::Tanh(b, OneOf(rows_)));
        break;
      case 1:
        rows_.push_back(op::Add(b, OneOf(rows_), OneOf(rows_)));
        break;
      case 2:
        rows_.push_back(op::Sub(b, OneOf(rows_), OneOf(rows_)));
        break;
      case 3:
        rows_.push_back(op::Maximum(b, OneOf(rows_), OneOf(rows_)));
        break;
      case 4:
      case 5:
        rows_.push_back(op::Tanh(b, op::MatMul(b, OneOf(rows_), OneOf(squares_))));
        break;
      case 6:
        squares_.push_back(op::Mul(b, OneOf(squares_), OneOf(squares_)));
        break;
      case 7:
        squares_.push_back(op::Identity(b, OneOf(variables_)));
        break;
      case 8:
        updates_.push_back(
            op::AssignAdd(b, OneOf(variables_), op::Mul(b, OneOf(squares_), op::Scalar(b, 0.125))));
        break;
      case 9: {
        // The gradient of a sum of rows times rows.
        const Value gradient =
            op::Tanh(b, op::MatMul(b, OneOf(rows_), OneOf(rows_), /*transpose_a=*/true));
        updates_.push_back(
            op::ApplyGradientDescent(b, OneOf(variables_), op::Scalar(b, 0.01), gradient));
        break;
      }
      case 10:
        rows_.push_back(op::BroadcastLike(b, op::Scalar(b, 0.5), OneOf(rows_)));
        break;
      default:
        squares_.push_back(op::RandomUniform(b, Shape{kWidth, kWidth}, -0.5, 0.5));
        break;
    }
    if (Pick(0, 5) == 0 && !updates_.empty()) {
      squares_.push_back(updates_.back());
    }
  }

  std::mt19937 random_;
  const int devices_;
  std::vector<Value> rows_;
  std::vector<Value> squares_;
  std::vector<Value> variables_;
  std::vector<Value> updates_;
};

}  // namespace lockstep::exec
