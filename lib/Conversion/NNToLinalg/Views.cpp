//===- Views.cpp - views, pieces and lookups as linalg.generic ------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Generics.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "tandem/Conversion/NNToLinalg/NNToLinalg.h"

using namespace mlir;
using namespace tandem;

//===----------------------------------------------------------------------===//
// Read at an affine index
//===----------------------------------------------------------------------===//

LogicalResult Generics::view(Operation *op, ArrayRef<AffineExpr> indices) {
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  auto map = AffineMap::get(type.getRank(), 0, indices, builder.getContext());
  Value result = generic(op->getLoc(), op->getOperand(0), map, type,
                         [](OpBuilder &, ValueRange args) { return args[0]; });
  return replace(op, result);
}

static SmallVector<AffineExpr> getDims(OpBuilder &b, int64_t rank) {
  SmallVector<AffineExpr> dims;
  for (int64_t dim : llvm::seq(rank))
    dims.push_back(b.getAffineDimExpr(dim));
  return dims;
}

LogicalResult Generics::convertPermute(nn::PermuteOp op) {
  SmallVector<AffineExpr> indices(getShape(op.getInput()).size());
  for (auto [to, from] : llvm::enumerate(op.getPermutation()))
    indices[from] = builder.getAffineDimExpr(to);
  return view(op, indices);
}

LogicalResult Generics::convertIota(nn::IotaOp op) {
  Value result = generic(
      op.getLoc(), {}, {}, op.getResult().getType(),
      [&](OpBuilder &b, ValueRange) { return getPosition(b, op.getLoc(), 0); });
  return replace(op, result);
}

//===----------------------------------------------------------------------===//
// Pieces
//===----------------------------------------------------------------------===//

static Value extract(OpBuilder &b, Location loc, Value source,
                     ValueRange indices) {
  return widen(b, loc, tensor::ExtractOp::create(b, loc, source, indices));
}

static Value compareIndex(OpBuilder &b, Location loc,
                          arith::CmpIPredicate predicate, Value index,
                          int64_t constant) {
  Value other = arith::ConstantIndexOp::create(b, loc, constant);
  return arith::CmpIOp::create(b, loc, predicate, index, other);
}

static void yield(OpBuilder &b, Location loc, Value value) {
  scf::YieldOp::create(b, loc, value);
}

/// In the body, since linalg takes the range of a loop from the first operand
/// that it indexes: that of a slice from 0 would be the whole dimension.
LogicalResult Generics::convertPiece(nn::PieceOpInterface op) {
  Location loc = op.getLoc();
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  auto body = [&](OpBuilder &b, ValueRange) {
    SmallVector<Value> at = getPositions(b, loc, type.getRank());
    nn::Scalar scalar(b, loc, b.getIndexType());
    op.emitSource(scalar, at);
    return extract(b, loc, op->getOperand(0), at);
  };
  return replace(op, generic(loc, {}, {}, type, body));
}

LogicalResult Generics::convertPad(nn::PadOp op) {
  Location loc = op.getLoc();
  int64_t dim = op.getDim(), step = op.getStep();
  int64_t size = getShape(op.getInput())[dim];
  auto type = op.getResult().getType();
  auto body = [&](OpBuilder &b, ValueRange) -> Value {
    SmallVector<Value> indices = getPositions(b, loc, type.getRank());
    Value low = arith::ConstantIndexOp::create(b, loc, op.getLow());
    Value place = arith::SubIOp::create(b, loc, indices[dim], low);
    // Unsigned: what lies before the first element is beyond the last.
    Value inside = compareIndex(b, loc, arith::CmpIPredicate::ult, place,
                                (size - 1) * step + 1);
    indices[dim] = place;
    if (step > 1) {
      Value by = arith::ConstantIndexOp::create(b, loc, step);
      Value rest = arith::RemUIOp::create(b, loc, place, by);
      Value hit = compareIndex(b, loc, arith::CmpIPredicate::eq, rest, 0);
      inside = arith::AndIOp::create(b, loc, inside, hit);
      indices[dim] = arith::DivUIOp::create(b, loc, place, by);
    }
    Type computed = getComputeType(type.getElementType());
    auto choice = scf::IfOp::create(
        b, loc, inside,
        [&](OpBuilder &b, Location loc) {
          yield(b, loc, extract(b, loc, op.getInput(), indices));
        },
        [&](OpBuilder &b, Location loc) {
          yield(b, loc, constantScalar(b, loc, computed, 0));
        });
    return choice.getResult(0);
  };
  return replace(op, generic(loc, {}, {}, type, body));
}

/// The element at `indices` of the concatenation of `inputs` along `dim`.
static Value selectPiece(OpBuilder &b, Location loc, ValueRange inputs,
                         int64_t dim, SmallVector<Value> indices) {
  if (inputs.size() == 1)
    return extract(b, loc, inputs[0], indices);
  int64_t size = cast<RankedTensorType>(inputs[0].getType()).getDimSize(dim);
  Value first =
      compareIndex(b, loc, arith::CmpIPredicate::ult, indices[dim], size);
  auto choice = scf::IfOp::create(
      b, loc, first,
      [&](OpBuilder &b, Location loc) {
        yield(b, loc, extract(b, loc, inputs[0], indices));
      },
      [&](OpBuilder &b, Location loc) {
        Value by = arith::ConstantIndexOp::create(b, loc, size);
        indices[dim] = arith::SubIOp::create(b, loc, indices[dim], by);
        yield(b, loc, selectPiece(b, loc, inputs.drop_front(), dim, indices));
      });
  return choice.getResult(0);
}

LogicalResult Generics::convertCat(nn::CatOp op) {
  Location loc = op.getLoc();
  auto type = op.getResult().getType();
  auto body = [&](OpBuilder &b, ValueRange) {
    return selectPiece(b, loc, op.getInputs(), op.getDim(),
                       getPositions(b, loc, type.getRank()));
  };
  return replace(op, generic(loc, {}, {}, type, body));
}

//===----------------------------------------------------------------------===//
// Lookups
//===----------------------------------------------------------------------===//

/// In an operator of its own, over the shape of the indices: it is checked once
/// per row, and the loop over the row has no call in it.
Value Generics::checkIndices(Operation *op, Value indices, int64_t size) {
  Location loc = op->getLoc();
  auto type = cast<RankedTensorType>(indices.getType());
  AffineMap map = builder.getMultiDimIdentityMap(type.getRank());
  return generic(loc, indices, map, type, [&](OpBuilder &b, ValueRange args) {
    Value limit = constantScalar(b, loc, b.getI64Type(), size);
    Value zero = constantScalar(b, loc, b.getI64Type(), 0);
    Value valid = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult,
                                        args[0], limit);
    auto choice = scf::IfOp::create(
        b, loc, valid,
        [&](OpBuilder &b, Location loc) { yield(b, loc, args[0]); },
        [&](OpBuilder &b, Location loc) {
          Value site = constantScalar(b, loc, b.getI64Type(), getSite(op));
          func::CallOp::create(b, loc, kReportIndexName, TypeRange{},
                               ValueRange{site, args[0], limit});
          yield(b, loc, zero);
        });
    return choice.getResult(0);
  });
}

static Value toIndex(OpBuilder &b, Location loc, Value value) {
  return arith::IndexCastOp::create(b, loc, b.getIndexType(), value);
}

LogicalResult Generics::convertEmbedding(nn::EmbeddingOp op) {
  Location loc = op.getLoc();
  auto type = op.getResult().getType();
  int64_t indexRank = getShape(op.getIndices()).size();
  Value indices =
      checkIndices(op, op.getIndices(), getShape(op.getWeight())[0]);
  SmallVector<AffineExpr> lead = getDims(builder, indexRank);
  auto map = AffineMap::get(type.getRank(), 0, lead, builder.getContext());
  auto body = [&](OpBuilder &b, ValueRange args) {
    SmallVector<Value> at = getPositions(b, loc, type.getRank());
    at.erase(at.begin(), at.begin() + indexRank);
    at.insert(at.begin(), toIndex(b, loc, args[0]));
    return extract(b, loc, op.getWeight(), at);
  };
  return replace(op, generic(loc, indices, map, type, body));
}

LogicalResult Generics::convertGather(nn::GatherOp op) {
  Location loc = op.getLoc();
  auto type = op.getResult().getType();
  int64_t dim = op.getDim();
  Value indices = checkIndices(op, op.getIndex(), getShape(op.getInput())[dim]);
  AffineMap map = builder.getMultiDimIdentityMap(type.getRank());
  auto body = [&](OpBuilder &b, ValueRange args) {
    SmallVector<Value> at = getPositions(b, loc, type.getRank());
    at[dim] = toIndex(b, loc, args[0]);
    return extract(b, loc, op.getInput(), at);
  };
  return replace(op, generic(loc, indices, map, type, body));
}

//===----------------------------------------------------------------------===//
// Places on the mesh
//===----------------------------------------------------------------------===//

Value Generics::getCoordinate(Operation *op, ArrayAttr axes) {
  Location loc = op->getLoc();
  auto type = RankedTensorType::get({}, builder.getI64Type());
  auto mesh =
      function->getParentOfType<ModuleOp>()->getAttrOfType<spmd::MeshAttr>(
          spmd::kMeshAttrName);
  Value linear;
  for (auto axis : axes.getAsRange<StringAttr>()) {
    Value coordinate = spmd::CoordinateOp::create(builder, loc, type, axis);
    if (!linear) {
      linear = coordinate;
      continue;
    }
    std::optional<unsigned> known =
        mesh ? mesh.lookup(axis.getValue()) : std::nullopt;
    if (!known) {
      op->emitOpError("is over axis '")
          << axis.getValue() << "', expected one of the module's spmd.mesh";
      return {};
    }
    int64_t size = mesh.getSize(*known);
    AffineMap map = builder.getMultiDimIdentityMap(0);
    linear = generic(loc, {linear, coordinate}, {map, map}, type,
                     [&](OpBuilder &b, ValueRange args) -> Value {
                       Value by = constantScalar(b, loc, b.getI64Type(), size);
                       Value major = arith::MulIOp::create(b, loc, args[0], by);
                       return arith::AddIOp::create(b, loc, major, args[1]);
                     });
  }
  return linear;
}

LogicalResult Generics::convertLocalSlice(spmd::LocalSliceOp op) {
  Location loc = op.getLoc();
  auto type = cast<RankedTensorType>(op.getResult().getType());
  int64_t dim = op.getDim();
  Value coordinate = getCoordinate(op, op.getAxes());
  if (!coordinate)
    return failure();
  auto map = AffineMap::get(type.getRank(), 0, {}, builder.getContext());
  auto body = [&](OpBuilder &b, ValueRange args) {
    SmallVector<Value> at = getPositions(b, loc, type.getRank());
    Value size = arith::ConstantIndexOp::create(b, loc, type.getDimSize(dim));
    Value start = arith::MulIOp::create(b, loc, toIndex(b, loc, args[0]), size);
    at[dim] = arith::AddIOp::create(b, loc, start, at[dim]);
    return extract(b, loc, op.getInput(), at);
  };
  return replace(op, generic(loc, coordinate, map, type, body));
}

LogicalResult Generics::convertKeepFirst(spmd::KeepFirstOp op) {
  Location loc = op.getLoc();
  auto type = cast<RankedTensorType>(op.getResult().getType());
  Value coordinate = getCoordinate(op, op.getAxes());
  if (!coordinate)
    return failure();
  auto scalar = AffineMap::get(type.getRank(), 0, {}, builder.getContext());
  AffineMap same = builder.getMultiDimIdentityMap(type.getRank());
  auto body = [&](OpBuilder &b, ValueRange args) -> Value {
    Value zero = constantScalar(b, loc, b.getI64Type(), 0);
    Value first =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, args[0], zero);
    Value nothing = constantScalar(b, loc, args[1].getType(), 0);
    return arith::SelectOp::create(b, loc, first, args[1], nothing);
  };
  return replace(op, generic(loc, {coordinate, op.getInput()}, {scalar, same},
                             type, body));
}
