//===- NestScalars.cpp - the scalars inside the loops of a nest -----------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Nest/NestEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/NN/Rounding.h"
#include "tandem/Dialect/SPMD/SPMD.h"

using namespace mlir;
using namespace tandem;

//===----------------------------------------------------------------------===//
// Indices
//===----------------------------------------------------------------------===//

/// The index along each dimension, which is a product of factors.
NestEmitter::Indices NestEmitter::getIndices(ArrayRef<Factors> dims) const {
  Indices indices;
  for (const Factors &dim : dims) {
    LinearIndex index;
    for (int factor : dim)
      index = index * nest.sizes[factor] + LinearIndex::ofFactor(factor);
    indices.push_back(index);
  }
  return indices;
}

LinearIndex NestEmitter::getRowOffset(const Factors &columns) const {
  LinearIndex offset;
  for (int factor : columns)
    offset = offset * nest.sizes[factor] + LinearIndex::ofFactor(factor);
  return offset;
}

Value NestEmitter::emitIndex(const LinearIndex &index) {
  if (recording)
    recorded.insert(index);
  Value sum;
  auto add = [&](Value value, int64_t coefficient) {
    if (coefficient != 1)
      value = arith::MulIOp::create(builder, loc, value,
                                    kernel.constant(coefficient));
    sum = sum ? Value(arith::AddIOp::create(builder, loc, sum, value)) : value;
  };
  // From outer to inner loops, so that each part is invariant in the next.
  for (auto [value, coefficient] : index.values)
    add(value, coefficient);
  for (auto [position, group] : llvm::enumerate(groups))
    if (int64_t coefficient = index.getCoefficient(group.back()))
      add(inductions[position], coefficient);
  if (index.constant != 0 || !sum)
    add(kernel.constant(index.constant), 1);
  return sum;
}

/// Follows sums, differences, multiples and casts of indices.
void NestEmitter::trackIndex(Operation *op) {
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    if (auto integer = dyn_cast<IntegerAttr>(constant.getValue()))
      if (!op->getResult(0).getType().isInteger(1))
        indexOf[op->getResult(0)] = LinearIndex::ofConstant(integer.getInt());
    return;
  }
  if (isa<arith::IndexCastOp>(op)) {
    auto it = indexOf.find(op->getOperand(0));
    if (it != indexOf.end())
      indexOf[op->getResult(0)] = LinearIndex(it->second);
    return;
  }
  if (!isa<arith::AddIOp, arith::SubIOp, arith::MulIOp>(op) ||
      !isa<IndexType>(op->getResult(0).getType()))
    return;
  auto linear = [&](Value value) {
    auto it = indexOf.find(value);
    return it != indexOf.end() ? it->second
                               : LinearIndex::ofValue(kernel.toI64(value));
  };
  LinearIndex lhs = linear(op->getOperand(0)), rhs = linear(op->getOperand(1));
  if (!isa<arith::MulIOp>(op))
    indexOf[op->getResult(0)] = lhs + rhs * (isa<arith::SubIOp>(op) ? -1 : 1);
  else if (rhs.isConstant())
    indexOf[op->getResult(0)] = lhs * rhs.constant;
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

Value NestEmitter::remember(Value value, const Indices &indices, Value scalar) {
  scopes.back()[getKey(value, indices)] = scalar;
  return scalar;
}

Value NestEmitter::loadElement(Value value, const LinearIndex &at) {
  return kernel.load(kernel.getMemory(value), emitIndex(at),
                     cast<RankedTensorType>(value.getType()).getElementType());
}

Value NestEmitter::evaluate(Value value, const Indices &indices) {
  if (nest.makes(value))
    return evaluatePlaced(value);
  Key key = getKey(value, indices);
  for (auto &scope : llvm::reverse(scopes))
    if (auto it = scope.find(key); it != scope.end())
      return it->second;
  auto type = cast<RankedTensorType>(value.getType());
  if (kernel.hasMemory(value)) {
    Value scalar = loadElement(value, linearize(indices, type.getShape()));
    return remember(value, indices, scalar);
  }
  return remember(value, indices, evaluateFloating(value, indices));
}

Value NestEmitter::evaluateFloating(Value value, const Indices &indices) {
  Operation *op = value.getDefiningOp();
  if (auto coordinate = dyn_cast<spmd::CoordinateOp>(op))
    return kernel.getCoordinate(coordinate.getAxis());
  if (isa<nn::ReshapeOp>(op))
    return evaluateReshape(op, indices);
  auto generic = cast<linalg::GenericOp>(op);
  SmallVector<Value> args = evaluateInputs(generic, indices);
  return emitBody(generic, args, indices).front();
}

/// Splits a linear index by division. Where the nest's factors allow it, no
/// division is left.
Value NestEmitter::evaluateReshape(Operation *op, const Indices &indices) {
  Value from = op->getOperand(0), to = op->getResult(0);
  ArrayRef<int64_t> shape = cast<RankedTensorType>(from.getType()).getShape();
  LinearIndex linear =
      linearize(indices, cast<RankedTensorType>(to.getType()).getShape());
  if (kernel.hasMemory(from))
    return loadElement(from, linear);
  int64_t total = cast<RankedTensorType>(from.getType()).getNumElements();
  Indices result(shape.size());
  int64_t stride = total;
  Value rest;
  bool divides = linear.values.empty() && linear.constant == 0;
  for (auto [dim, size] : llvm::enumerate(shape)) {
    stride /= size;
    // The terms of this dimension are the multiples of its stride.
    LinearIndex mine, others;
    int64_t reach = 0;
    for (auto [factor, coefficient] : linear.factors) {
      if (coefficient % stride == 0) {
        mine.factors[factor] = coefficient / stride;
      } else {
        others.factors[factor] = coefficient;
        reach += coefficient * (nest.sizes[factor] - 1);
      }
      divides &= coefficient > 0;
    }
    if (!divides || reach >= stride) {
      divides = false;
      break;
    }
    result[dim] = mine;
    linear = others;
  }
  if (divides)
    return evaluate(from, result);
  linear = linearize(indices, cast<RankedTensorType>(to.getType()).getShape());
  rest = emitIndex(linear);
  stride = total;
  for (auto [dim, size] : llvm::enumerate(shape)) {
    stride /= size;
    Value by = kernel.constant(stride);
    result[dim] =
        LinearIndex::ofValue(arith::DivUIOp::create(builder, loc, rest, by));
    rest = arith::RemUIOp::create(builder, loc, rest, by);
  }
  return evaluate(from, result);
}

/// A value that a member makes, at the current element.
Value NestEmitter::evaluatePlaced(Value value) {
  if (Value scalar = rowValues.lookup(value))
    return scalar;
  const Nest::Made &made = nest.lookup(value);
  Key key = getKey(value, {});
  for (auto &scope : llvm::reverse(scopes))
    if (auto it = scope.find(key); it != scope.end())
      return it->second;
  const MemberInfo &info = infos[made.member];
  auto type = cast<RankedTensorType>(value.getType());
  Value scalar;
  bool isEarlier = info.level < currentLevel;
  if (isEarlier && buffered.contains(value)) {
    Value at = emitIndex(getRowOffset(getColumns(getLayout(value))));
    scalar = kernel.load(buffers[value], at, type.getElementType());
  } else if (isEarlier && kernel.plan.inMemory.contains(value)) {
    Indices indices = getIndices(made.dims);
    Value at = emitIndex(linearize(indices, type.getShape()));
    scalar = kernel.load(kernel.getMemory(value), at, type.getElementType());
  } else {
    Indices loops = getIndices(nest.members[made.member].loops);
    Operation *op = nest.members[made.member].op;
    if (info.generic) {
      SmallVector<Value> args = evaluateInputs(info.generic, loops);
      scalar = emitBody(info.generic, args, loops).front();
    } else if (nest.makes(op->getOperand(0))) {
      scalar = evaluatePlaced(op->getOperand(0));
    } else {
      scalar = evaluateReshape(op, loops);
    }
  }
  return remember(value, {}, scalar);
}

SmallVector<Value> NestEmitter::evaluateInputs(linalg::GenericOp op,
                                               const Indices &loops) {
  SmallVector<Value> values;
  for (OpOperand *input : op.getDpsInputOperands()) {
    Indices indices;
    for (AffineExpr expr : op.getMatchingIndexingMap(input).getResults())
      indices.push_back(evaluateAffine(expr, loops));
    values.push_back(evaluate(input->get(), indices));
  }
  return values;
}

//===----------------------------------------------------------------------===//
// Bodies
//===----------------------------------------------------------------------===//

SmallVector<Value> NestEmitter::emitBody(linalg::GenericOp op,
                                         ArrayRef<Value> args,
                                         const Indices &loops) {
  IRMapping mapping;
  Block &body = op.getRegion().front();
  for (auto [from, to] : llvm::zip(body.getArguments(), args))
    mapping.map(from, to);
  for (Operation &inner : body.without_terminator())
    cloneInto(&inner, mapping, loops);
  SmallVector<Value> results;
  for (Value value : body.getTerminator()->getOperands())
    results.push_back(mapping.lookupOrDefault(value));
  return results;
}

void NestEmitter::cloneRegions(Operation *op, IRMapping &mapping,
                               const Indices &loops) {
  Operation *clone = op->cloneWithoutRegions(mapping);
  builder.insert(clone);
  for (auto [from, to] : llvm::zip(op->getRegions(), clone->getRegions())) {
    if (from.empty())
      continue;
    OpBuilder::InsertionGuard guard(builder);
    Block *block = builder.createBlock(&to);
    for (BlockArgument arg : from.getArguments())
      mapping.map(arg, block->addArgument(arg.getType(), arg.getLoc()));
    // What is evaluated inside is not known outside.
    scopes.emplace_back();
    for (Operation &inner : from.front())
      cloneInto(&inner, mapping, loops);
    scopes.pop_back();
  }
  for (auto [from, to] : llvm::zip(op->getResults(), clone->getResults()))
    mapping.map(from, to);
}

/// Whether the operator reads at an index, or computes one (that
/// `trackIndex` follows) to read at.
static bool isOnlyAccess(Operation *op) {
  if (isa<tensor::ExtractOp>(op))
    return true;
  bool isMultiple =
      isa<arith::MulIOp>(op) && matchPattern(op->getOperand(1), m_Constant());
  return (isMultiple || isa<arith::AddIOp, arith::SubIOp>(op)) &&
         llvm::all_of(op->getUsers(), isOnlyAccess);
}

void NestEmitter::cloneInto(Operation *op, IRMapping &mapping,
                            const Indices &loops) {
  if (auto index = dyn_cast<linalg::IndexOp>(op)) {
    const LinearIndex &linear = loops[index.getDim()];
    // An index that only takes part in an access is not computed by itself,
    // which would keep loops apart.
    bool isComputed = !llvm::all_of(op->getUsers(), isOnlyAccess);
    Value value =
        kernel.toIndex(isComputed ? emitIndex(linear) : kernel.constant(0));
    indexOf[value] = linear;
    mapping.map(op->getResult(0), value);
    return;
  }
  if (auto extract = dyn_cast<tensor::ExtractOp>(op)) {
    Indices indices;
    for (Value index : extract.getIndices()) {
      Value mapped = mapping.lookupOrDefault(index);
      auto it = indexOf.find(mapped);
      indices.push_back(it != indexOf.end()
                            ? it->second
                            : LinearIndex::ofValue(kernel.toI64(mapped)));
    }
    mapping.map(op->getResult(0), evaluate(extract.getTensor(), indices));
    return;
  }
  if (auto call = dyn_cast<func::CallOp>(op)) {
    int64_t number = getOrdinalNumber(call);
    if (number >= 0)
      return mapping.map(call.getResult(0), kernel.getOrdinal(number));
    kernel.reportIndex(mapping.lookupOrDefault(call.getOperand(0)),
                       mapping.lookupOrDefault(call.getOperand(1)),
                       mapping.lookupOrDefault(call.getOperand(2)));
    return;
  }
  if (op->getNumRegions() > 0)
    return cloneRegions(op, mapping, loops);
  // What was rounded to be stored, and is widened again, is not rounded.
  if (isa<arith::ExtFOp>(op)) {
    Value wide = mapping.lookupOrDefault(op->getOperand(0));
    auto rounded = wide.getDefiningOp<arith::TruncFOp>();
    if (rounded && !rounded->hasAttr(kRoundsAttr) &&
        rounded.getIn().getType() == op->getResult(0).getType()) {
      mapping.map(op->getResult(0), rounded.getIn());
      return;
    }
  }
  trackIndex(builder.clone(*op, mapping));
}
