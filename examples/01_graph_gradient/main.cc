// Builds a small graph, differentiates it, and runs both: y = sum((x w)^2) and dy/dw.
#include <cstdio>

#include "lockstep/exec/session.h"
#include "lockstep/op/catalog.h"
#include "lockstep/op/const.h"
#include "lockstep/op/matmul.h"
#include "lockstep/op/placeholder.h"
#include "lockstep/op/reduce.h"
#include "lockstep/op/unary.h"
#include "lockstep/op/variable.h"
#include "lockstep/pass/gradients.h"

namespace {

using namespace lockstep;  // NOLINT(google-build-using-namespace)

Status Run() {
  // The graph: the batch of x stays open.
  Graph graph(op::Catalog());
  Builder b(graph);
  const Value x = op::Placeholder(b, DType::kFloat32, Shape{-1, 2}, "x");
  const Value w = op::Variable(b, "w", op::Const(b, Tensor::From<float>(Shape{2, 1}, {3, -1})));
  const Value y = op::ReduceSum(b, op::Square(b, op::MatMul(b, x, w)));
  LS_TRY(b.status());

  // Its gradient is more nodes of the same graph.
  const Value ys[] = {y};
  const Value ws[] = {w};
  LS_ASSIGN_OR_RETURN(const std::vector<Gradient> gradients, pass::Gradients(b, ys, ws));

  // A session compiles what is asked of it, for the shapes that are fed, and runs it.
  LS_ASSIGN_OR_RETURN(const std::unique_ptr<exec::Session> session,
                      exec::Session::Create(graph, {}));
  LS_TRY(session->Initialize());
  LS_ASSIGN_OR_RETURN(const Tensor rows, Tensor::From<float>(Shape{3, 2}, {1, 2, 0, 1, 2, 2}));
  LS_ASSIGN_OR_RETURN(const std::vector<Tensor> out,
                      session->Run({{x, rows}}, {y, gradients[0].dense}));
  std::printf("y     = %s\n", out[0].ToString().c_str());
  std::printf("dy/dw = %s\n", out[1].ToString().c_str());
  return OkStatus();
}

}  // namespace

int main() {
  const Status status = Run();
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return 1;
  }
  return 0;
}
