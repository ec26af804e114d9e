//===- Loops.h - loops of nn operators --------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One function for each kind of loops that definitions name (`let loops`); what
// operators of a kind differ in, they have in attributes (`dim`, `dims`,
// `permutation`, `normalized_rank`).
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_NN_LOOPS_H
#define TANDEM_DIALECT_NN_LOOPS_H

#include "tandem/Dialect/SPMD/Loops.h"

namespace tandem::nn {

using spmd::buildPieceLoops;

/// None that others can share: a product, a loop of its own (`OwnLoops`), a
/// reshape (`Nest::tryAddReshape`), or none at all.
inline std::optional<spmd::LoopOp> buildNoLoops(mlir::Operation *) {
  return std::nullopt;
}
/// Over the result, to which operands broadcast.
std::optional<spmd::LoopOp> buildElementwiseLoops(mlir::Operation *op);
/// Over operand 0; the result lacks `dims`, or `dim`, or has them as 1.
std::optional<spmd::LoopOp> buildReductionLoops(mlir::Operation *op);
/// Over the result; `dim` is run over several times.
std::optional<spmd::LoopOp> buildAlongDimLoops(mlir::Operation *op);
/// Over operand 0, to which all else broadcasts; the last `normalized_rank`
/// dimensions are run over several times.
std::optional<spmd::LoopOp> buildNormalizedLoops(mlir::Operation *op);
/// Over the result, read in the order of `permutation`.
std::optional<spmd::LoopOp> buildPermuteLoops(mlir::Operation *op);
/// Over the result; operand 0 is read anywhere, operand 1 in order.
std::optional<spmd::LoopOp> buildEmbeddingLoops(mlir::Operation *op);
/// Over the result; operand 0 is read elsewhere on `dim`, operand 1 in order.
std::optional<spmd::LoopOp> buildGatherLoops(mlir::Operation *op);

} // namespace tandem::nn

#endif // TANDEM_DIALECT_NN_LOOPS_H
