//===- Attention.h - operands of attention ----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_NN_ATTENTION_H
#define TANDEM_DIALECT_NN_ATTENTION_H

#include "mlir/IR/ValueRange.h"

namespace tandem::nn {

/// What follows the operands of attention's own (`Attention.td`); null where
/// attributes say that it is not there, or where there are too few.
struct AttentionOthers {
  mlir::Value mask, positions, rows, seed, step;
  /// How many there should be.
  size_t count = 0;
};

AttentionOthers splitAttentionOthers(mlir::ValueRange others, bool isMasked,
                                     bool hasBand, bool hasDropout);

/// Pairs of a query and a key that it sees, for `queries` of them anywhere
/// among the positions of `keys`.
double countAttentionPairs(int64_t queries, int64_t keys,
                           std::optional<int64_t> before,
                           std::optional<int64_t> after);

} // namespace tandem::nn

#endif // TANDEM_DIALECT_NN_ATTENTION_H
