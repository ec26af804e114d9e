//===- Regions.h - choices of checkpointed regions --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_NN_REGIONS_H
#define TANDEM_DIALECT_NN_REGIONS_H

#include "tandem/Dialect/NN/NN.h"

namespace tandem::nn {

/// Whether `op` chooses if a checkpointed region makes a sum of ranks again or
/// takes that of the forward pass (`tandem-offer-saved`).
inline bool isOfRegion(mlir::Operation *op) {
  return mlir::isa<EitherOp>(op) && isAgain(op);
}

} // namespace tandem::nn

#endif // TANDEM_DIALECT_NN_REGIONS_H
