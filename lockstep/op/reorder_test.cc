#include "lockstep/op/reorder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "lockstep/base/macros.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::op {
namespace {

struct LayoutCase {
  Shape shape;
  Layout blocked;
};

// [n, h, w, c] stored as nChw8c, c padded to a multiple of 8.
LayoutCase BlockedImages(int64_t n, int64_t h, int64_t w, int64_t c) {
  const int64_t blocks = (c + 7) / 8;
  const Shape shape{n, h, w, c};
  const std::array<int64_t, 4> padded = {n, h, w, blocks * 8};
  const std::array<int64_t, 4> strides = {blocks * h * w * 8, w * 8, 8, h * w * 8};
  const std::array<Layout::Block, 1> block = {Layout::Block{3, 8}};
  return {shape, Layout::Blocked(shape, padded, strides, block)};
}

// [h, w, i, o] stored as OIhw8i8o.
LayoutCase BlockedFilter(int64_t h, int64_t w, int64_t i, int64_t o) {
  const int64_t ib = (i + 7) / 8;
  const int64_t ob = (o + 7) / 8;
  const Shape shape{h, w, i, o};
  const std::array<int64_t, 4> padded = {h, w, ib * 8, ob * 8};
  const std::array<int64_t, 4> strides = {w * 64, 64, h * w * 64, ib * h * w * 64};
  const std::array<Layout::Block, 2> block = {Layout::Block{2, 8}, Layout::Block{3, 8}};
  return {shape, Layout::Blocked(shape, padded, strides, block)};
}

Tensor Filled(DType dtype, const Shape& shape) {
  Tensor source = Tensor::Allocate(DType::kFloat32, shape).value();
  float next = 1.0F;
  for (float& value : source.values<float>()) {
    value = next;
    next += 1.0F;
  }
  Tensor result = Tensor::Allocate(dtype, shape).value();
  ConvertElements(DType::kFloat32, source.data(), dtype, result.data(), source.num_elements());
  return result;
}

std::vector<char> Copied(const Reorder& reorder, const void* from, size_t bytes) {
  std::vector<char> scratch(reorder.scratch_bytes + 64);
  void* aligned = scratch.data();
  size_t space = scratch.size();
  std::align(64, reorder.scratch_bytes, aligned, space);
  std::vector<char> to(bytes, '\x55');
  EXPECT_TRUE(reorder.run(from, to.data(), aligned).ok());
  return to;
}

template <class T>
void ExpectBlocked(const LayoutCase& c, const Tensor& plain, const std::vector<char>& bytes) {
  const T* blocked = reinterpret_cast<const T*>(bytes.data());
  const int64_t stored = static_cast<int64_t>(bytes.size() / sizeof(T));
  std::vector<double> expected(static_cast<size_t>(stored), 0.0);
  const std::vector<double> values = plain.ToDoubles();
  size_t next = 0;
  std::array<int64_t, 4> i{};
  for (i[0] = 0; i[0] < c.shape[0]; ++i[0]) {
    for (i[1] = 0; i[1] < c.shape[1]; ++i[1]) {
      for (i[2] = 0; i[2] < c.shape[2]; ++i[2]) {
        for (i[3] = 0; i[3] < c.shape[3]; ++i[3]) {
          expected[static_cast<size_t>(c.blocked.OffsetOf(c.shape, i))] = values[next++];
        }
      }
    }
  }
  std::vector<double> actual(static_cast<size_t>(stored));
  ConvertElements(DTypeOf<T>(), blocked, DType::kFloat64, actual.data(), stored);
  EXPECT_EQ(actual, expected);
}

template <class T>
void RoundTrip(const LayoutCase& c) {
  const DType dtype = DTypeOf<T>();
  const Tensor plain = Filled(dtype, c.shape);
  const Reorder there = MakeReorder(c.shape, dtype, Layout(), dtype, c.blocked).value();
  const std::vector<char> blocked = Copied(there, plain.data(), c.blocked.Bytes(c.shape, dtype));
  ExpectBlocked<T>(c, plain, blocked);
  const Reorder back = MakeReorder(c.shape, dtype, c.blocked, dtype, Layout()).value();
  const std::vector<char> again = Copied(back, blocked.data(), plain.bytes());
  EXPECT_TRUE(std::equal(again.begin(), again.end(), static_cast<const char*>(plain.data())));
}

TEST(Reorder, BlockedImagesRoundTrip) {
  RoundTrip<float>(BlockedImages(2, 3, 5, 16));
  RoundTrip<float>(BlockedImages(2, 3, 5, 3));
  RoundTrip<BFloat16>(BlockedImages(2, 3, 5, 4));
  RoundTrip<int32_t>(BlockedImages(2, 3, 5, 7));
  RoundTrip<double>(BlockedImages(1, 3, 2, 9));
}

TEST(Reorder, BlockedFiltersRoundTrip) {
  RoundTrip<float>(BlockedFilter(3, 3, 16, 24));
  RoundTrip<float>(BlockedFilter(3, 2, 3, 10));
  RoundTrip<BFloat16>(BlockedFilter(1, 1, 3, 10));
}

TEST(Reorder, ConvertsWhileCopying) {
  const LayoutCase c = BlockedImages(2, 2, 3, 8);
  const Tensor plain = Filled(DType::kFloat32, c.shape);
  const Reorder reorder =
      MakeReorder(c.shape, DType::kFloat32, Layout(), DType::kBFloat16, c.blocked).value();
  ExpectBlocked<BFloat16>(
      c, plain, Copied(reorder, plain.data(), c.blocked.Bytes(c.shape, DType::kBFloat16)));
  const Reorder flat =
      MakeReorder(c.shape, DType::kFloat32, Layout(), DType::kInt64, Layout()).value();
  const std::vector<char> ints = Copied(flat, plain.data(), 96 * 8);
  EXPECT_EQ(reinterpret_cast<const int64_t*>(ints.data())[95], 96);
}

TEST(Reorder, EmptyTensors) {
  const LayoutCase c = BlockedImages(0, 2, 3, 8);
  const Reorder reorder =
      MakeReorder(c.shape, DType::kFloat32, Layout(), DType::kFloat32, c.blocked).value();
  float none = 0.0F;
  EXPECT_TRUE(reorder.run(&none, &none, nullptr).ok());
}

}  // namespace
}  // namespace lockstep::op
