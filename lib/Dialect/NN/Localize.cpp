//===- Localize.cpp - position-dependent nn operators ---------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/Builders.h"
#include "tandem/Dialect/NN/NN.h"

using namespace mlir;
using namespace tandem::nn;
using namespace tandem::spmd;

namespace {
/// Builds arithmetic on positions: i64 tensors, and i1 tensors of their shape.
struct Positions {
  OpBuilder &builder;
  Location loc;

  RankedTensorType like(Value value, Type element) {
    auto type = cast<RankedTensorType>(value.getType());
    return RankedTensorType::get(type.getShape(), element, type.getEncoding());
  }
  Value constant(int64_t value) {
    auto type = RankedTensorType::get({}, builder.getI64Type());
    return ConstantOp::create(builder, loc, type,
                              DenseElementsAttr::get(type, value));
  }
  /// `OpTy(value, number)`, in the type of `value`.
  template <typename OpTy> Value with(Value value, int64_t number) {
    return OpTy::create(builder, loc, value.getType(), value, constant(number));
  }
  template <typename OpTy> Value join(Value lhs, Value rhs) {
    return OpTy::create(builder, loc, lhs.getType(), lhs, rhs);
  }
  Value compare(Value value, Predicate predicate, int64_t number) {
    return CompareOp::create(builder, loc, like(value, builder.getI1Type()),
                             value, constant(number), predicate);
  }
  /// `condition ? lhs : rhs`.
  Value select(Value condition, Value lhs, Value rhs) {
    return SelectOp::create(builder, loc, lhs.getType(), condition, lhs, rhs);
  }
  Value addOffset(Value value, const Shard::Offset &offset);
};
} // namespace

/// Adds the offset of a shard to positions of any shape.
Value Positions::addOffset(Value value, const Shard::Offset &offset) {
  auto scalar = RankedTensorType::get({}, builder.getI64Type());
  for (auto [axis, stride] : offset.terms) {
    Value coordinate =
        CoordinateOp::create(builder, loc, scalar, builder.getStringAttr(axis));
    if (stride != 1)
      coordinate = with<MulOp>(coordinate, stride);
    value = join<AddOp>(value, coordinate);
  }
  return offset.constant ? with<AddOp>(value, offset.constant) : value;
}

//===----------------------------------------------------------------------===//
// Sources
//===----------------------------------------------------------------------===//

SmallVector<Value> ConstantOp::buildShard(OpBuilder &builder,
                                          const Shard &shard) {
  auto type = cast<RankedTensorType>(shard.getResultTypes()[0]);
  // Only a splat is ever split; its shards are equal.
  auto value = cast<ElementsAttr>(getValue());
  if (auto splat = dyn_cast<SplatElementsAttr>(value))
    value = splat.resizeSplat(withoutForms(type));
  return {ConstantOp::create(builder, getLoc(), type, value)};
}

/// The positions of a dimension of which time axes split the major part: for
/// each of their points a block. Built as a matrix, point by element.
static Value buildBlocks(Positions &positions, RankedTensorType type,
                         const DimSplit &split, const Shard::Offset &offset) {
  OpBuilder &builder = positions.builder;
  Location loc = positions.loc;
  Type i64 = builder.getI64Type();
  auto typed = [&](ArrayRef<int64_t> shape, Attribute encoding) {
    return RankedTensorType::get(shape, i64, encoding);
  };
  Attribute form = type.getEncoding();
  Value points = IotaOp::create(builder, loc, typed({split.kept}, form));
  points = positions.with<MulOp>(points, split.size / split.kept);
  points =
      ReshapeOp::create(builder, loc, typed({split.kept, 1}, form), points);
  Value block = IotaOp::create(builder, loc, typed({split.block}, {}));
  block = positions.addOffset(block, offset);
  block = ReshapeOp::create(builder, loc, typed({1, split.block}, {}), block);
  Value both = AddOp::create(
      builder, loc, typed({split.kept, split.block}, form), points, block);
  return ReshapeOp::create(builder, loc, type, both);
}

SmallVector<Value> IotaOp::buildShard(OpBuilder &builder, const Shard &shard) {
  auto type = cast<RankedTensorType>(shard.getResultTypes()[0]);
  DimSplit split = shard.getSplit(shard.getOldResultType(0), 0);
  Positions positions{builder, getLoc()};
  if (split.removed > 1 && split.kept > 1)
    return {buildBlocks(positions, type, split, shard.getOffset(split))};
  Value local = IotaOp::create(builder, getLoc(), type);
  return {positions.addOffset(local, shard.getOffset(split))};
}

//===----------------------------------------------------------------------===//
// Embedding with split rows
//===----------------------------------------------------------------------===//

namespace {
/// Where the rows that indices name are in a shard of the rows.
struct ShardRows {
  /// The row in the shard; 0 where it is elsewhere; the user's own index, which
  /// is in no shard and an error at run time, where the whole has no such row.
  Value indices;
  /// Whether the row is in this shard.
  Value held;
};
} // namespace

static ShardRows findRows(Positions &positions, Value indices,
                          const DimSplit &split, const Shard::Offset &offset) {
  int64_t part = split.size / split.kept;
  Value point, row = indices;
  if (split.kept > 1) {
    point = positions.with<FloorDivideOp>(indices, part);
    row = positions.with<RemainderOp>(indices, part);
  }
  Value begin = positions.constant(0);
  Value local = positions.join<SubOp>(row, positions.addOffset(begin, offset));
  auto inside = [&](Value value, int64_t end) {
    return positions.join<LogicalAndOp>(
        positions.compare(value, Predicate::Ge, 0),
        positions.compare(value, Predicate::Lt, end));
  };
  Value held = inside(local, split.block);
  if (point)
    local =
        positions.join<AddOp>(local, positions.with<MulOp>(point, split.block));
  Value exists = inside(indices, split.size);
  Value safe = positions.select(held, local, positions.constant(0));
  return {positions.select(exists, safe, indices), held};
}

/// Zero as a scalar that combines with `like` by `nn.select`: `reduce` on the
/// axes on which `like` is.
static Value buildZero(OpBuilder &builder, Location loc,
                       RankedTensorType like) {
  auto scalar = RankedTensorType::get({}, like.getElementType());
  Value zero = ConstantOp::create(
      builder, loc, scalar,
      DenseElementsAttr::get(scalar,
                             builder.getZeroAttr(scalar.getElementType())));
  auto form = dyn_cast_or_null<FormAttr>(like.getEncoding());
  if (!form)
    return zero;
  Forms forms(form.getCodes().size());
  for (auto [axis, code] : llvm::enumerate(form.getCodes())) {
    if (!AxisForm::fromCode(code).isReduce())
      continue;
    forms[axis] = AxisForm::reduce();
    zero = ReformOp::create(builder, loc,
                            withForms(scalar, form.getMesh(), forms), zero);
  }
  return zero;
}

/// `rows` (i..., d...) with zeros where `held` (i...) is false.
static Value maskRows(OpBuilder &builder, Location loc, Value rows,
                      Value held) {
  auto type = cast<RankedTensorType>(rows.getType());
  auto heldType = cast<RankedTensorType>(held.getType());
  SmallVector<int64_t> shape(heldType.getShape());
  shape.resize(type.getRank(), 1);
  auto wide =
      RankedTensorType::get(shape, builder.getI1Type(), heldType.getEncoding());
  if (wide != heldType)
    held = ReshapeOp::create(builder, loc, wide, held);
  return SelectOp::create(builder, loc, type, held, rows,
                          buildZero(builder, loc, type));
}

SmallVector<Value> EmbeddingOp::buildShard(OpBuilder &builder,
                                           const Shard &shard) {
  Type type = shard.getResultTypes()[0];
  Value weight = shard.getOperands()[0], indices = shard.getOperands()[1];
  DimSplit split = shard.getSplit(shard.getOldOperandType(0), 0);
  if (split.removed == 1)
    return {EmbeddingOp::create(builder, getLoc(), type, weight, indices)};
  Positions positions{builder, getLoc()};
  ShardRows rows = findRows(positions, indices, split, shard.getOffset(split));
  Value result =
      EmbeddingOp::create(builder, getLoc(), type, weight, rows.indices);
  return {maskRows(builder, getLoc(), result, rows.held)};
}

SmallVector<Value> EmbeddingBackwardOp::buildShard(OpBuilder &builder,
                                                   const Shard &shard) {
  Type type = shard.getResultTypes()[0];
  Value grad = shard.getOperands()[0], indices = shard.getOperands()[1];
  DimSplit split = shard.getSplit(shard.getOldResultType(0), 0);
  if (split.removed == 1)
    return {
        EmbeddingBackwardOp::create(builder, getLoc(), type, grad, indices)};
  Positions positions{builder, getLoc()};
  ShardRows rows = findRows(positions, indices, split, shard.getOffset(split));
  grad = maskRows(builder, getLoc(), grad, rows.held);
  return {
      EmbeddingBackwardOp::create(builder, getLoc(), type, grad, rows.indices)};
}
