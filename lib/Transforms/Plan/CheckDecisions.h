//===- CheckDecisions.h - checks of decisions -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_PLAN_CHECKDECISIONS_H
#define TANDEM_LIB_TRANSFORMS_PLAN_CHECKDECISIONS_H

#include "PlanFile.h"

namespace tandem::plan {

/// Checks decisions that were read from `file`, for `graph`, which has their
/// signatures. Fails with an error that names the line
///  * of a stage that begins where another one does;
///  * of a copy that is not made for operators of its pass, once, from forms
///    that are there before its stage, by changes that there are collectives
///    for, or that is kept for no later pass;
///  * of what waits and is no gradient that an update takes so, or is sent in a
///    slot that does not lie between the two.
mlir::LogicalResult checkDecisions(const StepGraph &graph,
                                   const Decisions &decisions,
                                   llvm::StringRef file);

/// Whether some collective waits of which no slot is given.
bool lacksPieces(const StepGraph &graph, const Decisions &decisions);

/// Says in a remark which lines `copy` and `wait` of the file are not followed,
/// as they say otherwise than `costed`, the same decisions as prices have them.
void reportMoved(const StepGraph &graph, const PlanFile &file,
                 const Decisions &costed);

} // namespace tandem::plan

#endif // TANDEM_LIB_TRANSFORMS_PLAN_CHECKDECISIONS_H
