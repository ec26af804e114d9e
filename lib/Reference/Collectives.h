//===- Collectives.h - collectives between simulated ranks *- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Internal to lib/Reference: spmd operators on per-device tensors, as
// `localize` makes them.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_REFERENCE_COLLECTIVES_H
#define TANDEM_LIB_REFERENCE_COLLECTIVES_H

#include "tandem/Reference/Layout.h"

namespace tandem::reference {

/// Whether `op` is a collective, a local slice or the like: an operator of spmd
/// with an operand and `axes`.
bool runsOverGroups(mlir::Operation *op);

/// Runs it between the points of each group. The members of a group stand in
/// the order of their ranks.
Shards runCollective(mlir::Operation *op, const Shards &input,
                     const Points &points);

/// The coordinate of every point, as `type`.
Shards runCoordinate(spmd::CoordinateOp op, const Points &points);

} // namespace tandem::reference

#endif // TANDEM_LIB_REFERENCE_COLLECTIVES_H
