//===- Products.cpp - matrix products and indexing ------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Evaluators.h"

using namespace mlir;
using namespace tandem::nn;

namespace tandem::reference {

LogicalResult run(MatmulOp op, Call &call) {
  const Tensor &lhs = call.operand(0), &rhs = call.operand(1);
  Tensor &result = call.result();
  int64_t rows = lhs.getShape()[lhs.getShape().size() - 2];
  int64_t depth = lhs.getShape().back(), columns = rhs.getShape().back();
  int64_t count = result.getNumElements();
  for (int64_t i = 0; i < count; ++i) {
    int64_t row = i / columns, column = i % columns, batch = row / rows;
    double sum = 0;
    uint64_t integerSum = 0;
    for (int64_t k = 0; k < depth; ++k) {
      int64_t left = row * depth + k;
      int64_t right = (batch * depth + k) * columns + column;
      if (result.isFloat())
        sum += lhs.getDouble(left) * rhs.getDouble(right);
      else
        integerSum += static_cast<uint64_t>(lhs.getInteger(left)) *
                      static_cast<uint64_t>(rhs.getInteger(right));
    }
    if (result.isFloat())
      result.setDouble(i, sum);
    else
      result.setInteger(i, integerSum);
  }
  return success();
}

/// Adds element `j` of `from` to element `i` of `to`, without rounding between:
/// `to` is of type f64 or i64.
static void accumulate(Tensor &to, int64_t i, const Tensor &from, int64_t j) {
  if (to.isFloat())
    to.setDouble(i, to.getDouble(i) + from.getDouble(j));
  else
    to.setInteger(i, static_cast<uint64_t>(to.getInteger(i)) +
                         static_cast<uint64_t>(from.getInteger(j)));
}

/// A wide tensor of zeros to accumulate into.
static Tensor makeAccumulator(const Tensor &result) {
  Type narrow = result.getElementType();
  return Tensor(result.getShape(),
                result.isFloat() ? Type(Float64Type::get(narrow.getContext()))
                                 : IntegerType::get(narrow.getContext(), 64));
}

static void roundInto(Tensor &result, const Tensor &wide) {
  for (int64_t i = 0; i < result.getNumElements(); ++i) {
    if (result.isFloat())
      result.setDouble(i, wide.getDouble(i));
    else
      result.setInteger(i, wide.getInteger(i));
  }
}

static LogicalResult checkIndex(Operation *op, int64_t index, int64_t size) {
  if (index >= 0 && index < size)
    return success();
  return op->emitOpError("reads index ")
         << index << ", expected one in [0, " << size << ")";
}

LogicalResult run(EmbeddingOp op, Call &call) {
  const Tensor &weight = call.operand(0), &indices = call.operand(1);
  const Part &part = call.operandParts[0];
  int64_t width = getNumElements(weight.getShape().drop_front());
  for (int64_t i = 0; i < indices.getNumElements(); ++i) {
    int64_t index = indices.getInteger(i);
    if (failed(checkIndex(op, index, part.whole[0])))
      return failure();
    // Rows that another shard holds give zero here.
    int64_t row = index - part.offsets[0];
    if (row < 0 || row >= part.shape[0])
      continue;
    for (int64_t d = 0; d < width; ++d)
      call.result().copyElement(i * width + d, weight, row * width + d);
  }
  return success();
}

LogicalResult run(EmbeddingBackwardOp op, Call &call) {
  const Tensor &grad = call.operand(0), &indices = call.operand(1);
  const Part &part = call.resultParts[0];
  int64_t width = getNumElements(ArrayRef(part.shape).drop_front());
  Tensor sums = makeAccumulator(call.result());
  for (int64_t i = 0; i < indices.getNumElements(); ++i) {
    int64_t index = indices.getInteger(i);
    if (failed(checkIndex(op, index, part.whole[0])))
      return failure();
    int64_t row = index - part.offsets[0];
    if (row < 0 || row >= part.shape[0])
      continue;
    for (int64_t d = 0; d < width; ++d)
      accumulate(sums, row * width + d, grad, i * width + d);
  }
  roundInto(call.result(), sums);
  return success();
}

/// For every element of `index`, the linear index in a tensor of `shape` of the
/// element with that position on `dim`.
static FailureOr<std::vector<int64_t>> mapIndex(Operation *op,
                                                const Tensor &index,
                                                ArrayRef<int64_t> shape,
                                                int64_t dim) {
  std::vector<int64_t> targets(index.getNumElements());
  auto strides = getStrides(shape);
  bool isValid = true;
  forEachIndex(index.getShape(), [&](ArrayRef<int64_t> at, int64_t linear) {
    int64_t position = index.getInteger(linear);
    if (!isValid || failed(checkIndex(op, position, shape[dim]))) {
      isValid = false;
      return;
    }
    for (auto [d, p] : llvm::enumerate(at))
      targets[linear] +=
          strides[d] * (static_cast<int64_t>(d) == dim ? position : p);
  });
  if (!isValid)
    return failure();
  return targets;
}

LogicalResult run(GatherOp op, Call &call) {
  const Tensor &input = call.operand(0);
  auto sources = mapIndex(op, call.operand(1), input.getShape(), op.getDim());
  if (failed(sources))
    return failure();
  for (auto [i, source] : llvm::enumerate(*sources))
    call.result().copyElement(i, input, source);
  return success();
}

LogicalResult run(ScatterAddOp op, Call &call) {
  auto targets =
      mapIndex(op, call.operand(1), call.result().getShape(), op.getDim());
  if (failed(targets))
    return failure();
  Tensor sums = makeAccumulator(call.result());
  for (auto [i, target] : llvm::enumerate(*targets))
    accumulate(sums, target, call.operand(0), i);
  roundInto(call.result(), sums);
  return success();
}

} // namespace tandem::reference
