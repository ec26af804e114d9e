//===- Shapes.cpp - constants, views and pieces ---------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Evaluators.h"

using namespace mlir;
using namespace tandem::nn;

namespace tandem::reference {

LogicalResult run(ConstantOp op, Call &call) {
  Tensor value = Tensor::fromAttribute(op.getValue());
  Tensor &result = call.result();
  bool isSplat = op.getValue().isSplat();
  // The rule never splits a constant that is no splat, but a splat's shard is
  // a smaller splat.
  if (!isSplat && value.getShape() != result.getShape())
    return op.emitOpError("is no splat and cannot be split");
  for (int64_t i = 0; i < result.getNumElements(); ++i)
    result.copyElement(i, value, isSplat ? 0 : i);
  return success();
}

LogicalResult run(IotaOp op, Call &call) {
  for (int64_t i = 0; i < call.result().getNumElements(); ++i)
    call.result().setInteger(i, call.resultParts[0].offsets[0] + i);
  return success();
}

LogicalResult run(EitherOp op, Call &call) {
  for (unsigned i = 1; i < call.values.size(); ++i)
    if (!call.operand(i).isIdenticalTo(call.operand(0)))
      return op.emitOpError("has other values in operand ")
             << i << " than in operand 0, expected the same ones";
  call.result() = call.operand(0);
  return success();
}

LogicalResult run(ToHostOp op, Call &call) {
  call.result() = call.operand(0);
  return success();
}

LogicalResult run(FromHostOp op, Call &call) {
  call.result() = call.operand(0);
  return success();
}

LogicalResult run(ReshapeOp op, Call &call) {
  call.result() = call.operand(0).reshaped(call.result().getShape());
  return success();
}

LogicalResult run(PermuteOp op, Call &call) {
  auto strides = getStrides(call.operand(0).getShape());
  forEachIndex(
      call.result().getShape(), [&](ArrayRef<int64_t> index, int64_t linear) {
        int64_t source = 0;
        for (auto [position, dim] : llvm::zip(index, op.getPermutation()))
          source += position * strides[dim];
        call.result().copyElement(linear, call.operand(0), source);
      });
  return success();
}

LogicalResult run(ExpandOp op, Call &call) {
  auto sources =
      mapBroadcast(call.operand(0).getShape(), call.result().getShape());
  for (auto [i, source] : llvm::enumerate(sources))
    call.result().copyElement(i, call.operand(0), source);
  return success();
}

/// Copies every element of `from` to `to`, where position p of `dim` becomes
/// `start + p * step`.
static void placeAlong(const Tensor &from, Tensor &to, int64_t dim,
                       int64_t start, int64_t step) {
  auto strides = getStrides(to.getShape());
  forEachIndex(from.getShape(), [&](ArrayRef<int64_t> index, int64_t linear) {
    int64_t target = 0;
    for (auto [d, position] : llvm::enumerate(index)) {
      bool isMoved = static_cast<int64_t>(d) == dim;
      target += (isMoved ? start + position * step : position) * strides[d];
    }
    to.copyElement(target, from, linear);
  });
}

LogicalResult run(SliceOp op, Call &call) {
  auto strides = getStrides(call.operand(0).getShape());
  int64_t dim = op.getDim(), start = op.getStart(), step = op.getStep();
  forEachIndex(call.result().getShape(),
               [&](ArrayRef<int64_t> index, int64_t linear) {
                 int64_t source = 0;
                 for (auto [d, position] : llvm::enumerate(index))
                   source += strides[d] * (static_cast<int64_t>(d) == dim
                                               ? start + position * step
                                               : position);
                 call.result().copyElement(linear, call.operand(0), source);
               });
  return success();
}

LogicalResult run(PadOp op, Call &call) {
  placeAlong(call.operand(0), call.result(), op.getDim(), op.getLow(),
             op.getStep());
  return success();
}

LogicalResult run(CatOp op, Call &call) {
  call.result() = concatenate(call.values, op.getDim());
  return success();
}

LogicalResult run(FlipOp op, Call &call) {
  const Tensor &input = call.operand(0);
  auto strides = getStrides(input.getShape());
  forEachIndex(input.getShape(), [&](ArrayRef<int64_t> index, int64_t linear) {
    int64_t source = 0;
    for (auto [dim, position] : llvm::enumerate(index)) {
      bool isFlipped =
          llvm::is_contained(op.getDims(), static_cast<int64_t>(dim));
      source += strides[dim] *
                (isFlipped ? input.getShape()[dim] - 1 - position : position);
    }
    call.result().copyElement(linear, input, source);
  });
  return success();
}

LogicalResult run(RollOp op, Call &call) {
  const Tensor &input = call.operand(0);
  auto strides = getStrides(input.getShape());
  forEachIndex(input.getShape(), [&](ArrayRef<int64_t> index, int64_t linear) {
    SmallVector<int64_t> moved(index);
    for (auto [dim, shift] : llvm::zip(op.getDims(), op.getShifts()))
      moved[dim] = (moved[dim] + shift) % input.getShape()[dim];
    int64_t target = 0;
    for (auto [position, stride] : llvm::zip(moved, strides))
      target += position * stride;
    call.result().copyElement(target, input, linear);
  });
  return success();
}

} // namespace tandem::reference
