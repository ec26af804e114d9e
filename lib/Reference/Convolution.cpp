//===- Convolution.cpp - convolution and its gradients --------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Evaluators.h"

using namespace mlir;
using namespace tandem::nn;

namespace tandem::reference {

namespace {
/// The elements of input, weight and output that one term is made of.
struct Term {
  int64_t input, weight, output;
};
} // namespace

/// Calls `visit` for each term of the form in `Convolution.h`, but for those
/// that read outside of the input. Shapes are those of the values at hand.
template <typename Visit>
static void forEachTerm(const ConvolutionShapes &shapes, const Convolution &c,
                        Visit &&visit) {
  SmallVector<int64_t> loops = {shapes.output[0], shapes.output[1],
                                shapes.getChannelsIn()};
  size_t dims = shapes.getNumSpatialDims();
  llvm::append_range(loops, shapes.output.drop_front(2));
  llvm::append_range(loops, shapes.weight.drop_front(2));
  forEachIndex(loops, [&](ArrayRef<int64_t> at, int64_t) {
    int64_t group = at[1] / shapes.getChannelsOut();
    Term term{at[0] * shapes.input[1] + group * shapes.getChannelsIn() + at[2],
              at[1] * shapes.weight[1] + at[2],
              at[0] * shapes.output[1] + at[1]};
    for (size_t dim = 0; dim < dims; ++dim) {
      int64_t y = at[3 + dim], k = at[3 + dims + dim];
      int64_t x = c.stride[dim] * y + c.dilation[dim] * k - c.padding[dim];
      if (x < 0 || x >= shapes.input[2 + dim])
        return;
      term.input = term.input * shapes.input[2 + dim] + x;
      term.weight = term.weight * shapes.weight[2 + dim] + k;
      term.output = term.output * shapes.output[2 + dim] + y;
    }
    visit(term);
  });
}

/// Adds up `getTerm` at the place of each term that `getPlace` gives.
template <typename Place, typename Value>
static LogicalResult sumTerms(const ConvolutionShapes &shapes,
                              const Convolution &convolution, Call &call,
                              Place &&getPlace, Value &&getValue) {
  std::vector<double> sums(call.result().getNumElements());
  forEachTerm(shapes, convolution, [&](const Term &term) {
    sums[getPlace(term)] += getValue(term);
  });
  for (auto [i, sum] : llvm::enumerate(sums))
    call.result().setDouble(i, sum);
  return success();
}

LogicalResult run(ConvOp op, Call &call) {
  const Tensor &input = call.operand(0), &weight = call.operand(1);
  return sumTerms(
      {input.getShape(), weight.getShape(), call.result().getShape()},
      Convolution(op), call, [](const Term &term) { return term.output; },
      [&](const Term &term) {
        return input.getDouble(term.input) * weight.getDouble(term.weight);
      });
}

LogicalResult run(ConvInputGradOp op, Call &call) {
  const Tensor &grad = call.operand(0), &weight = call.operand(1);
  return sumTerms(
      {call.result().getShape(), weight.getShape(), grad.getShape()},
      Convolution(op), call, [](const Term &term) { return term.input; },
      [&](const Term &term) {
        return grad.getDouble(term.output) * weight.getDouble(term.weight);
      });
}

LogicalResult run(ConvWeightGradOp op, Call &call) {
  const Tensor &input = call.operand(0), &grad = call.operand(1);
  return sumTerms(
      {input.getShape(), call.result().getShape(), grad.getShape()},
      Convolution(op), call, [](const Term &term) { return term.weight; },
      [&](const Term &term) {
        return input.getDouble(term.input) * grad.getDouble(term.output);
      });
}

} // namespace tandem::reference
