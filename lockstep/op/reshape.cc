#include "lockstep/op/reshape.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/graph/grad_context.h"
#include "lockstep/graph/op_def.h"
#include "lockstep/op/internal/reference.h"
#include "lockstep/op/internal/view.h"

namespace lockstep::op {
namespace {

// The product of the dimensions of [begin, rank) that are known.
int64_t KnownProduct(const Shape& shape, int begin = 0) {
  Shape known;
  for (int i = begin; i < shape.rank(); ++i) {
    known.Append(shape[i] < 0 ? 1 : shape[i]);
  }
  return known.num_elements();
}

Status SizeMismatch(const Shape& from, const Shape& to) {
  return InvalidArgument(
      fmt::format("the shape {} cannot become {}: the numbers of elements differ", from.ToString(),
                  to.ToString()));
}

// The output shape of Reshape: `target` with its -1 resolved if `from` allows it.
Result<Shape> Resolve(const Shape& from, const Shape& target) {
  const auto dims = target.dims();
  if (std::count(dims.begin(), dims.end(), Shape::kUnknownDim) > 1) {
    return InvalidArgument(fmt::format(
        "the attribute 'shape' is {}, allowed is one dimension of -1", target.ToString()));
  }
  LS_TRY(Shape::Create(dims).status());
  if (!from.fully_known()) {
    return target;
  }
  const int64_t elements = from.num_elements();
  if (target.fully_known()) {
    return target.num_elements() == elements ? Result<Shape>(target) : SizeMismatch(from, target);
  }
  const int64_t others = KnownProduct(target);
  if (others == 0 || elements % others != 0) {
    return SizeMismatch(from, target);
  }
  Shape shape = target;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] < 0) {
      shape.set_dim(i, elements / others);
    }
  }
  return shape;
}

Status ReshapeInfer(InferContext& ctx) {
  LS_ASSIGN_OR_RETURN(const Shape shape, Resolve(ctx.shape(0), ctx.attrs().Get<Shape>("shape")));
  ctx.AddOutput(ctx.dtype(0), shape);
  return OkStatus();
}

Status ReshapeLikeInfer(InferContext& ctx) {
  const Shape& from = ctx.shape(0);
  const Shape& to = ctx.shape(1);
  if (from.fully_known() && to.fully_known() && from.num_elements() != to.num_elements()) {
    return SizeMismatch(from, to);
  }
  ctx.AddOutput(ctx.dtype(0), to);
  return OkStatus();
}

Status Grad(GradContext& ctx) {
  ctx.SetGrad(0, ReshapeLike(ctx, ctx.dy(), ctx.input(0)));
  return OkStatus();
}

std::vector<Sample> ReshapeSamples() {
  return {
      {.name = "flatten", .inputs = {{Shape{2, 3, 4}}}, .attrs = {{"shape", Shape{-1, 12}}}},
      {.name = "to scalar", .inputs = {{Shape{1, 1}}}, .attrs = {{"shape", Shape{}}}},
      {.name = "int", .inputs = {{Shape{6}, DType::kInt32}}, .attrs = {{"shape", Shape{-1, 3}}}}};
}

std::vector<Sample> ReshapeLikeSamples() {
  return {{.name = "unflatten", .inputs = {{Shape{2, 12}}, {Shape{2, 3, 4}}}}};
}

}  // namespace

OpDef ReshapeDef() {
  return {.name = "Reshape",
          .summary = "x under another shape",
          .min_inputs = 1,
          .max_inputs = 1,
          .attrs = {{"shape", AttrType::kShape}},
          .infer = ReshapeInfer,
          .grad = Grad,
          .cpu = ReshapeViewKernel,
          .reference = CopyReference,
          .samples = ReshapeSamples};
}

OpDef ReshapeLikeDef() {
  return {.name = "ReshapeLike",
          .summary = "x under the shape of another value",
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = ReshapeLikeInfer,
          .grad = Grad,
          .cpu = ReshapeViewKernel,
          .reference = CopyReference,
          .samples = ReshapeLikeSamples,
          .shape_only_inputs = 2};
}

Value Reshape(BuildContext ctx, Value x, const Shape& shape) {
  return ctx.Add("Reshape", {x}, {{"shape", shape}});
}

Value ReshapeLike(BuildContext ctx, Value x, Value like) {
  return ctx.Add("ReshapeLike", {x, like});
}

Value Flatten(BuildContext ctx, Value x) {
  if (!x.valid()) {
    return {};
  }
  const Shape& shape = x.shape();
  if (shape.rank() < 2) {
    return ctx.Fail(InvalidArgument(fmt::format(
        "op Flatten: the input has the shape {}, expected rank 2 or more", shape.ToString())));
  }
  const auto rest = shape.dims().subspan(1);
  const bool rest_known = std::all_of(rest.begin(), rest.end(), [](int64_t d) { return d >= 0; });
  return Reshape(ctx, x, Shape{shape[0], rest_known ? KnownProduct(shape, 1) : -1});
}

}  // namespace lockstep::op
