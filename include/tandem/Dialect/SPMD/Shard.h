//===- Shard.h - positions of shards ----------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What `LocalizeOpInterface::buildShard` is told. Some axes are taken off the
// forms of an operator: all space axes by `localize`, then all time axes by
// `duplex`. Where axes that stay and axes that leave split the same dimension,
// those that stay are the major ones (time comes first). Included by `SPMD.h`.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_SPMD_SHARD_H
#define TANDEM_DIALECT_SPMD_SHARD_H

#include "mlir/IR/Builders.h"

namespace tandem::spmd {

/// How one dimension is cut. Index `i` of the whole is
/// `o * (size / kept) + offset + r`, and `o * block + r` in the shard, where
/// `o < kept` and `r < block`.
struct DimSplit {
  /// Size before.
  int64_t size = 1;
  /// Points of the axes that split the dimension and stay.
  int64_t kept = 1;
  /// Points of the axes that split the dimension and leave.
  int64_t removed = 1;
  int64_t block = 1;
  /// Axes that leave, with the distance between two points of them.
  llvm::SmallVector<std::pair<unsigned, int64_t>, 2> strides;
};

class Shard {
public:
  /// `coordinates` holds the time axes' coordinates if these leave (`duplex`);
  /// without it the space axes leave (`localize`); or the time axis, if an
  /// iteration is what is built (`form-loops`). Types are those before.
  Shard(MeshAttr mesh, mlir::ValueRange operands, mlir::TypeRange operandTypes,
        mlir::TypeRange resultTypes, mlir::TypeRange newResultTypes,
        std::optional<llvm::ArrayRef<int64_t>> coordinates = std::nullopt,
        bool isIteration = false)
      : mesh(mesh), operands(operands), operandTypes(operandTypes),
        oldResultTypes(resultTypes), newResultTypes(newResultTypes),
        coordinates(coordinates), isIteration(isIteration) {}

  mlir::ValueRange getOperands() const { return operands; }
  mlir::TypeRange getResultTypes() const { return newResultTypes; }
  mlir::RankedTensorType getOldOperandType(unsigned index) const;
  mlir::RankedTensorType getOldResultType(unsigned index) const;

  /// How dimension `dim` of a tensor that had the type `type` is cut.
  DimSplit getSplit(mlir::RankedTensorType type, int64_t dim) const;

  /// The offset of `split`, for this shard.
  struct Offset {
    /// The part that is known when compiling.
    int64_t constant = 0;
    /// Axes whose coordinate (`spmd.coordinate`) times a stride is added.
    llvm::SmallVector<std::pair<llvm::StringRef, int64_t>, 2> terms;
  };
  Offset getOffset(const DimSplit &split) const;

private:
  bool isRemoved(unsigned axis) const;

  MeshAttr mesh;
  mlir::ValueRange operands;
  mlir::TypeRange operandTypes, oldResultTypes, newResultTypes;
  std::optional<llvm::ArrayRef<int64_t>> coordinates;
  bool isIteration;
};

} // namespace tandem::spmd

#endif // TANDEM_DIALECT_SPMD_SHARD_H
