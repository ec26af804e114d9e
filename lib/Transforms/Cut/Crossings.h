//===- Crossings.h - what crosses sections ----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_CUT_CROSSINGS_H
#define TANDEM_LIB_TRANSFORMS_CUT_CROSSINGS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tandem {

/// Lets less cross the sections of `step`, whose operators have
/// `spmd.section`: once behind a loop in place of each iteration, one sum in
/// place of its terms, what views show in place of each view. Numbers operators
/// anew, if they have numbers.
void reduceCrossings(mlir::func::FuncOp step);

} // namespace tandem

#endif // TANDEM_LIB_TRANSFORMS_CUT_CROSSINGS_H
