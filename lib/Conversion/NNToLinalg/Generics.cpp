//===- Generics.cpp - making linalg.generic ops ---------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Generics.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace tandem;

Value Generics::generic(Location loc, ValueRange inputs,
                        ArrayRef<AffineMap> maps, RankedTensorType type,
                        Body body) {
  Value empty = tensor::EmptyOp::create(builder, loc, type.getShape(),
                                        type.getElementType());
  SmallVector<AffineMap> all(maps);
  all.push_back(builder.getMultiDimIdentityMap(type.getRank()));
  SmallVector<utils::IteratorType> loops(type.getRank(),
                                         utils::IteratorType::parallel);
  auto build = [&](OpBuilder &b, Location loc, ValueRange args) {
    SmallVector<Value> wide;
    for (Value arg : args.drop_back())
      wide.push_back(widen(b, loc, arg));
    Value result = narrow(b, loc, body(b, wide), type.getElementType());
    linalg::YieldOp::create(b, loc, result);
  };
  return linalg::GenericOp::create(builder, loc, TypeRange{type}, inputs, empty,
                                   all, loops, build)
      .getResult(0);
}

/// How an operand of shape `from` is read while `to` is written.
static AffineMap getBroadcastMap(OpBuilder &b, ArrayRef<int64_t> from,
                                 ArrayRef<int64_t> to) {
  SmallVector<AffineExpr> indices;
  size_t lead = to.size() - from.size();
  for (auto [dim, size] : llvm::enumerate(from))
    indices.push_back(size == 1 ? b.getAffineConstantExpr(0)
                                : b.getAffineDimExpr(lead + dim));
  return AffineMap::get(to.size(), 0, indices, b.getContext());
}

Value Generics::elementwise(Operation *op, ValueRange inputs, Body body) {
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  SmallVector<AffineMap> maps;
  for (Value input : inputs)
    maps.push_back(getBroadcastMap(builder, getShape(input), type.getShape()));
  return generic(op->getLoc(), inputs, maps, type, body);
}

SmallVector<Value> Generics::reduce(Operation *op, Value input,
                                    ArrayRef<int64_t> dims,
                                    ArrayRef<RankedTensorType> types,
                                    ArrayRef<Attribute> starts,
                                    Combiner combiner) {
  Location loc = op->getLoc();
  int64_t rank = getShape(input).size();
  bool keepdim = types[0].getRank() == rank;
  SmallVector<utils::IteratorType> loops(rank, utils::IteratorType::parallel);
  SmallVector<AffineExpr> kept;
  for (int64_t dim : llvm::seq(rank)) {
    bool reduced = llvm::is_contained(dims, dim);
    if (reduced)
      loops[dim] = utils::IteratorType::reduction;
    if (!reduced)
      kept.push_back(builder.getAffineDimExpr(dim));
    else if (keepdim)
      kept.push_back(builder.getAffineConstantExpr(0));
  }
  SmallVector<AffineMap> maps = {builder.getMultiDimIdentityMap(rank)};
  SmallVector<Value> inits;
  for (auto [type, start] : llvm::zip_equal(types, starts)) {
    maps.push_back(AffineMap::get(rank, 0, kept, builder.getContext()));
    inits.push_back(arith::ConstantOp::create(
        builder, loc, DenseElementsAttr::get(type, start)));
  }
  auto build = [&](OpBuilder &b, Location loc, ValueRange args) {
    Value element = widen(b, loc, args[0]);
    linalg::YieldOp::create(b, loc, combiner(b, element, args.drop_front()));
  };
  SmallVector<Type> results(types.begin(), types.end());
  auto made = linalg::GenericOp::create(builder, loc, results, input, inits,
                                        maps, loops, build);
  return SmallVector<Value>(made.getResults());
}

Value Generics::round(Location loc, Value value, Type type) {
  if (value.getType() == type)
    return value;
  auto tensor = cast<RankedTensorType>(type);
  AffineMap map = builder.getMultiDimIdentityMap(tensor.getRank());
  return generic(loc, value, map, tensor,
                 [](OpBuilder &, ValueRange args) { return args[0]; });
}

Value Generics::getPosition(OpBuilder &b, Location loc, int64_t dim) {
  return arith::IndexCastOp::create(b, loc, b.getI64Type(),
                                    linalg::IndexOp::create(b, loc, dim));
}

SmallVector<Value> Generics::getPositions(OpBuilder &b, Location loc,
                                          int64_t rank) {
  SmallVector<Value> positions;
  for (int64_t dim : llvm::seq(rank))
    positions.push_back(linalg::IndexOp::create(b, loc, dim));
  return positions;
}

LogicalResult Generics::replace(Operation *op, Value value) {
  op->getResult(0).replaceAllUsesWith(value);
  op->erase();
  return success();
}
