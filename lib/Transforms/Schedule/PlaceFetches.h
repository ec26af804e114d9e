//===- PlaceFetches.h - where parameters are fetched ------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A copy cuts the computation of a slot into steps, and a kernel does not cross
// steps. So that kernels, and what they round, are those of a step without
// copies, operators are sorted by the kernels that they will be in, and a
// parameter is fetched in front of a library call, where kernels end anyway.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_SCHEDULE_PLACEFETCHES_H
#define TANDEM_LIB_TRANSFORMS_SCHEDULE_PLACEFETCHES_H

#include "tandem/Analysis/Fusion.h"

namespace tandem {

/// Sorts the operators of a slot, which stand in an order in which they can
/// run. What fetches an argument stands in front of the last library call
/// before its first reader, or in front of all. Other copies keep the order of
/// the text.
void placeFetches(llvm::SmallVectorImpl<mlir::Operation *> &ops,
                  const FusionLimits &limits);

} // namespace tandem

#endif // TANDEM_LIB_TRANSFORMS_SCHEDULE_PLACEFETCHES_H
