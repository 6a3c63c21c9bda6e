// The cost of a cached Session::Run of a trivial graph: what every step pays besides its kernels.
#include <benchmark/benchmark.h>

#include "lockstep/exec/session.h"
#include "lockstep/op/binary.h"
#include "lockstep/op/catalog.h"
#include "lockstep/op/const.h"
#include "lockstep/op/placeholder.h"

namespace lockstep {
namespace {

struct Trivial {
  Trivial() {
    Builder b(graph);
    x = op::Placeholder(b, DType::kFloat32, Shape{-1}, "x");
    y = op::Add(b, x, op::Scalar(b, 1.0));
    session = exec::Session::Create(graph, {}).value();
    feed = Tensor::From<float>(Shape{2}, {1, 2}).value();
  }

  Graph graph{op::Catalog()};
  Value x;
  Value y;
  std::unique_ptr<exec::Session> session;
  Tensor feed;
};

void BM_SessionRun(benchmark::State& state) {
  Trivial trivial;
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        trivial.session->Run({{trivial.x, trivial.feed}}, {trivial.y}).value());
  }
}

void BM_CallableRun(benchmark::State& state) {
  Trivial trivial;
  exec::Callable* callable = trivial.session->Prepare({{trivial.x}, {trivial.y}, {}}).value();
  const Tensor feeds[] = {trivial.feed};
  Tensor fetches[1];
  for (auto _ : state) {
    benchmark::DoNotOptimize(callable->Run(feeds, fetches, {}).ok());
  }
}

BENCHMARK(BM_SessionRun);
BENCHMARK(BM_CallableRun);

}  // namespace
}  // namespace lockstep

BENCHMARK_MAIN();
