//===- Rules.h - builders of rules that depend on types ---------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each function makes the rule of an operator whose rule no text can say. They
// are named in the operators' definitions. `linear` lists the groups of
// operands in which the operator is linear (see `parseRule`).
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_NN_RULES_H
#define TANDEM_DIALECT_NN_RULES_H

#include "tandem/Dialect/SPMD/Rule.h"

namespace tandem::nn {

/// What splitting the positions of windows needs (`Rule::Factor::need`).
inline constexpr llvm::StringLiteral kHalo = "a halo, which no operator has";

/// Operands are aligned at the last dimension of the result and broadcast.
spmd::Rule buildElementwiseRule(mlir::Operation *op, llvm::StringRef linear);
/// As elementwise; not linear where fractions are cut off, nor with i1.
spmd::Rule buildConvertRule(mlir::Operation *op, llvm::StringRef linear);
/// As elementwise; linear for floating-point types only.
spmd::Rule buildDivRule(mlir::Operation *op, llvm::StringRef linear);
/// Reduced dimensions (`dims`, `keepdim`) may be split: they are summed.
spmd::Rule buildSumRule(mlir::Operation *op, llvm::StringRef linear);
/// Reduced dimensions stay whole.
spmd::Rule buildWholeReductionRule(mlir::Operation *op, llvm::StringRef linear);
spmd::Rule buildArgmaxRule(mlir::Operation *op, llvm::StringRef linear);
/// All operands and results have the same rank; `dim` stays whole.
spmd::Rule buildAlongDimRule(mlir::Operation *op, llvm::StringRef linear);
/// `dim` stays whole, unless every element becomes a block of `step` elements.
spmd::Rule buildPadRule(mlir::Operation *op, llvm::StringRef linear);
/// The dimensions `dims` stay whole.
spmd::Rule buildFlipRule(mlir::Operation *op, llvm::StringRef linear);
/// The last `normalized_rank` dimensions stay whole; gradients of weight and
/// bias are summed over the others.
spmd::Rule buildLayerNormRule(mlir::Operation *op, llvm::StringRef linear);
/// A splat may be split, other constants stay whole.
spmd::Rule buildConstantRule(mlir::Operation *op, llvm::StringRef linear);
/// Factors the two shapes into the coarsest common pieces.
spmd::Rule buildReshapeRule(mlir::Operation *op, llvm::StringRef linear);
/// Every operand is split as the result is.
spmd::Rule buildEitherRule(mlir::Operation *op, llvm::StringRef linear);
spmd::Rule buildPermuteRule(mlir::Operation *op, llvm::StringRef linear);
/// All inputs are linear together; `dim` stays whole.
spmd::Rule buildCatRule(mlir::Operation *op, llvm::StringRef linear);
/// (v d...), (i...) -> (i... d...): v may be split (`EmbeddingOp`).
spmd::Rule buildEmbeddingRule(mlir::Operation *op, llvm::StringRef linear);
/// (i... d...), (i...) -> (v d...).
spmd::Rule buildEmbeddingBackwardRule(mlir::Operation *op,
                                      llvm::StringRef linear);
/// `dim` of the input stays whole, `dim` of index and result may be split.
spmd::Rule buildGatherRule(mlir::Operation *op, llvm::StringRef linear);
/// `dim` of src and index may be split (summed), `dim` of the result not.
spmd::Rule buildScatterAddRule(mlir::Operation *op, llvm::StringRef linear);
/// Batch, heads and query positions may be split, key positions and widths not;
/// what the gradients of key and value lack is summed.
spmd::Rule buildAttentionRule(mlir::Operation *op, llvm::StringRef linear);
/// Batch, groups, channels in and out may be split, positions only where no
/// window reaches into the next one.
spmd::Rule buildConvolutionRule(mlir::Operation *op, llvm::StringRef linear);
/// The dimensions that windows lie in stay whole.
spmd::Rule buildPoolingRule(mlir::Operation *op, llvm::StringRef linear);

} // namespace tandem::nn

#endif // TANDEM_DIALECT_NN_RULES_H
