//===- LateOperators.h - operators that later sections read -----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_CUT_LATEOPERATORS_H
#define TANDEM_LIB_TRANSFORMS_CUT_LATEOPERATORS_H

#include "mlir/IR/Block.h"
#include "mlir/IR/Operation.h"

namespace tandem {

/// The section of each operator that has one.
using SectionMap = llvm::DenseMap<mlir::Operation *, int64_t>;

/// Bytes that cross sections in the forward pass, once for each section that
/// reads them, where operators are in `moved`, or else in `sections`.
int64_t countCrossing(mlir::Block &block, const SectionMap &sections,
                      const SectionMap &moved);

/// Forward operators of nn, without parameters, whose results later sections
/// alone read, and the first of these sections, where their move lets fewer
/// bytes cross. As the normalization in front of a layer with a skip
/// connection.
SectionMap findMoves(mlir::Block &block, const SectionMap &sections);

/// Backward operators whose gradients come from one later section, which has
/// all else that they read, and that section, where their move lets fewer bytes
/// cross: those of the forward operators that `findMoves` found, and the sum of
/// what they give and of what skips them.
SectionMap findGradientMoves(mlir::Block &block, const SectionMap &sections);

} // namespace tandem

#endif // TANDEM_LIB_TRANSFORMS_CUT_LATEOPERATORS_H
