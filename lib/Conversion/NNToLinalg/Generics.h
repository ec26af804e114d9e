//===- Generics.h - making linalg.generic ops -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_NNTOLINALG_GENERICS_H
#define TANDEM_LIB_CONVERSION_NNTOLINALG_GENERICS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/NN/Scalar.h"
#include "tandem/Dialect/SPMD/SPMD.h"

namespace tandem {

/// Converts the operators of one function, each in its place.
class Generics {
public:
  explicit Generics(mlir::func::FuncOp function)
      : function(function), builder(function.getContext()) {}

  mlir::LogicalResult convert(mlir::Operation *op);

private:
  using Body =
      llvm::function_ref<mlir::Value(mlir::OpBuilder &, mlir::ValueRange)>;
  using Combiner = llvm::function_ref<llvm::SmallVector<mlir::Value>(
      mlir::OpBuilder &, mlir::Value element, mlir::ValueRange sofar)>;

  static mlir::Type getElementType(mlir::Value value) {
    return mlir::cast<mlir::RankedTensorType>(value.getType()).getElementType();
  }
  static llvm::ArrayRef<int64_t> getShape(mlir::Value value) {
    return mlir::cast<mlir::RankedTensorType>(value.getType()).getShape();
  }

  /// A generic over the shape of `type`. `body` gets the elements of `inputs`,
  /// widened, and its result is rounded.
  mlir::Value generic(mlir::Location loc, mlir::ValueRange inputs,
                      llvm::ArrayRef<mlir::AffineMap> maps,
                      mlir::RankedTensorType type, Body body);
  /// The same over the result of `op`, to which `inputs` broadcast.
  mlir::Value elementwise(mlir::Operation *op, mlir::ValueRange inputs,
                          Body body);
  /// Reduces `dims` of `input` to one result per type.
  llvm::SmallVector<mlir::Value>
  reduce(mlir::Operation *op, mlir::Value input, llvm::ArrayRef<int64_t> dims,
         llvm::ArrayRef<mlir::RankedTensorType> types,
         llvm::ArrayRef<mlir::Attribute> starts, Combiner combiner);
  /// `value` rounded to the elements of `type`.
  mlir::Value round(mlir::Location loc, mlir::Value value, mlir::Type type);
  /// One result of one input, read at `map`.
  mlir::LogicalResult view(mlir::Operation *op,
                           llvm::ArrayRef<mlir::AffineExpr> indices);
  /// The current index of loop `dim`, as i64 or as index.
  static mlir::Value getPosition(mlir::OpBuilder &b, mlir::Location loc,
                                 int64_t dim);
  static llvm::SmallVector<mlir::Value>
  getPositions(mlir::OpBuilder &b, mlir::Location loc, int64_t rank);
  /// This rank's linear coordinate on `axes`, as a rank-0 tensor; null where
  /// the module does not say the sizes.
  mlir::Value getCoordinate(mlir::Operation *op, mlir::ArrayAttr axes);
  /// `indices` with an error reported, and 0, for those outside [0, size).
  mlir::Value checkIndices(mlir::Operation *op, mlir::Value indices,
                           int64_t size);
  mlir::LogicalResult replace(mlir::Operation *op, mlir::Value value);

  mlir::LogicalResult convertElementwise(mlir::Operation *op);
  mlir::LogicalResult convertExpand(nn::ExpandOp op);
  mlir::LogicalResult convertConstant(nn::ConstantOp op);
  mlir::LogicalResult convertReduction(mlir::Operation *op,
                                       llvm::ArrayRef<int64_t> dims);
  mlir::LogicalResult convertArgmax(nn::ArgmaxOp op);
  mlir::LogicalResult convertIota(nn::IotaOp op);
  mlir::LogicalResult convertPermute(nn::PermuteOp op);
  mlir::LogicalResult convertPiece(nn::PieceOpInterface op);
  mlir::LogicalResult convertPad(nn::PadOp op);
  mlir::LogicalResult convertCat(nn::CatOp op);
  mlir::LogicalResult convertEmbedding(nn::EmbeddingOp op);
  mlir::LogicalResult convertGather(nn::GatherOp op);
  mlir::LogicalResult convertLocalSlice(spmd::LocalSliceOp op);
  mlir::LogicalResult convertKeepFirst(spmd::KeepFirstOp op);

  mlir::func::FuncOp function;
  mlir::OpBuilder builder;
};

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_NNTOLINALG_GENERICS_H
