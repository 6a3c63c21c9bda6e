// Reverse-mode differentiation of a graph: adds the nodes that compute the derivative of sum(ys)
// (or of sum(ys * grad_ys)) with respect to each x. The nodes are ordinary ops, so they can be
// differentiated again.
//
//   const Value losses[] = {loss};
//   LS_ASSIGN_OR_RETURN(std::vector<Gradient> grads, pass::Gradients(b, losses, weights));
#pragma once

#include <span>
#include <vector>

#include "lockstep/graph/builder.h"
#include "lockstep/graph/grad_context.h"

namespace lockstep::pass {

// One gradient for each x, zero (Gradient::is_zero) where no y depends on x. Errors: a y that is
// not floating point; a path from y to x through an op without a gradient, named with its line; a
// gradient whose type or shape does not match.
Result<std::vector<Gradient>> Gradients(Builder& builder, std::span<const Value> ys,
                                        std::span<const Value> xs,
                                        std::span<const Value> grad_ys = {});

// The gradient as one dense value: scatters a sparse one into zeros of the shape of `like`. Invalid
// if zero.
Value DenseGradient(BuildContext ctx, const Gradient& gradient, Value like);

}  // namespace lockstep::pass
