// A cached step allocates nothing: counts every call of the allocation functions of the C library,
// which this program puts its own in front of.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "lockstep/exec/session.h"
#include "lockstep/op/activation.h"
#include "lockstep/op/apply.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/catalog.h"
#include "lockstep/op/const.h"
#include "lockstep/op/group.h"
#include "lockstep/op/placeholder.h"
#include "lockstep/op/reduce.h"
#include "lockstep/op/unary.h"
#include "lockstep/op/variable.h"
#include "lockstep/pass/gradients.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LS_COUNTS_ALLOCATIONS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define LS_COUNTS_ALLOCATIONS 0
#endif
#endif
#ifndef LS_COUNTS_ALLOCATIONS
#define LS_COUNTS_ALLOCATIONS 1
#endif

namespace {
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): the functions below need it
std::atomic<int> allocations = 0;
}  // namespace

#if LS_COUNTS_ALLOCATIONS
// NOLINTBEGIN(bugprone-reserved-identifier): the C library's own names
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* block, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

void* malloc(size_t size) {
  ++allocations;
  return __libc_malloc(size);
}

void* calloc(size_t count, size_t size) {
  ++allocations;
  return __libc_calloc(count, size);
}

void* realloc(void* block, size_t size) {
  ++allocations;
  return __libc_realloc(block, size);
}

void* aligned_alloc(size_t alignment, size_t size) {
  ++allocations;
  return __libc_memalign(alignment, size);
}

int posix_memalign(void** block, size_t alignment, size_t size) {
  ++allocations;
  *block = __libc_memalign(alignment, size);
  return *block == nullptr ? ENOMEM : 0;
}
}
// NOLINTEND(bugprone-reserved-identifier)
#endif

namespace lockstep::exec {
namespace {

TEST(AllocationTest, ACachedStepAllocatesNothing) {
  if (LS_COUNTS_ALLOCATIONS == 0) {
    GTEST_SKIP() << "the sanitizer has allocation functions of its own";
  }
  Graph graph{op::Catalog()};
  Builder b{graph};
  const Value x = op::Placeholder(b, DType::kFloat32, Shape{-1, 5}, "x");
  const Value w =
      op::Variable(b, "w", op::Const(b, Tensor::From<float>(Shape{5}, {1, 2, 3, 4, 5})));
  const Value slot =
      op::Variable(b, "slot", op::Const(b, Tensor::Zeros(DType::kFloat32, Shape{5})));
  const Value y = op::Tanh(b, op::ReduceSum(b, op::Mul(b, x, w), {1}));
  const Value loss = op::ReduceMean(b, op::Square(b, op::Sub(b, y, op::Scalar(b, 0.5))));
  const Value ys[] = {loss};
  const Value xs[] = {w};
  const Value gradient = pass::Gradients(b, ys, xs).value()[0].dense;
  Node* train =
      op::Group(b, std::vector<Value>{op::ApplyMomentum(b, w, slot, op::Scalar(b, 0.1), gradient)});
  ASSERT_TRUE(b.status().ok()) << b.status().ToString();

  const auto session = Session::Create(graph, {}).value();
  ASSERT_TRUE(session->Initialize().ok());
  Callable* callable = session->Prepare({{x}, {loss, y}, {train}}).value();
  const std::vector<Tensor> feeds = {
      Tensor::From<float>(Shape{2, 5}, {.1F, .2F, .3F, .4F, .5F, -1, 0, 1, 2, -3}).value()};
  std::vector<Tensor> fetches(2);
  StepProfile profile;
  int before = allocations;
  ASSERT_TRUE(callable->Run(feeds, fetches, {}, &profile).ok());
  EXPECT_GT(allocations, before) << "the first step compiles a plan, so this must count";
  const float first = fetches[0].values<float>()[0];

  before = allocations;
  bool ok = true;
  for (int64_t step = 1; step < 20; ++step) {
    ok = ok && callable->Run(feeds, fetches, {.step = step}).ok();
  }
  ok = ok && callable->Run(feeds, fetches, {.step = 20}, &profile).ok();
  EXPECT_EQ(allocations, before);
  EXPECT_TRUE(ok);
  EXPECT_LT(fetches[0].values<float>()[0], first);
}

}  // namespace
}  // namespace lockstep::exec
