//===- Pieces.h - pieces of values, made from pieces ------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_IMPORT_PIECES_H
#define TANDEM_LIB_TRANSFORMS_IMPORT_PIECES_H

#include "Views.h"
#include "llvm/ADT/DenseMap.h"

namespace tandem {

/// Elements [begin, end) of dimension `dim`.
struct Range {
  int64_t dim, begin, end;
};

/// Where a reshape from shape `from` to shape `to` puts `range`: indices of the
/// dimension of `to` whose major part, or of which the major part, the
/// dimension of `from` is. None where the range is not one of `to`.
std::optional<Range> mapThroughReshape(llvm::ArrayRef<int64_t> from,
                                       llvm::ArrayRef<int64_t> to, Range range);

/// The dimension of `op`'s one result that dimension `dim` of operand `number`
/// becomes, if each slice of it is computed from that slice alone: by the rule,
/// where both are the same factors, which may be split, and no other dimension
/// has some of them.
std::optional<int64_t> getParallelDim(mlir::Operation *op, unsigned number,
                                      int64_t dim);

/// Makes pieces of values. A piece of an operator's result is made by the same
/// operator on pieces of its operands where that computes nothing twice within
/// a piece, down to the operands of a concatenation and to the parts given by
/// `give`; what is left is a slice.
class Pieces {
public:
  /// `part` is `range` of `whole` from now on.
  void give(mlir::Value whole, Range range, mlir::Value part);

  /// The piece, for `user`, whose pass a slice of an argument gets.
  mlir::Value get(mlir::Value value, Range range, mlir::Operation *user);

private:
  mlir::Value make(mlir::Value value, Range range, mlir::Operation *user);
  mlir::Value slice(mlir::Value value, Range range, mlir::Operation *user);
  mlir::Value makeCat(nn::CatOp op, Range range);
  mlir::Value makePad(nn::PadOp op, Range range);
  mlir::Value makeReshape(nn::ReshapeOp op, Range range);
  mlir::Value makeParallel(mlir::Operation *op, Range range);

  using Key = std::tuple<mlir::Value, int64_t, int64_t, int64_t>;
  llvm::DenseMap<Key, mlir::Value> made;
};

} // namespace tandem

#endif // TANDEM_LIB_TRANSFORMS_IMPORT_PIECES_H
