//===- HashStep.h - hash of a step's computation ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_ANALYSIS_HASHSTEP_H
#define TANDEM_ANALYSIS_HASHSTEP_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <string>

namespace tandem {

/// SHA-256 of what the step computes, in hexadecimal: names, attributes, types
/// and operands of its operators, and the facts of `nn` on them, on arguments
/// and results, but for `nn.range` and `nn.source`. Nothing else: no text of
/// the IR, no location, no name of a value, nothing that plans write.
std::string hashStep(mlir::func::FuncOp step);

} // namespace tandem

#endif // TANDEM_ANALYSIS_HASHSTEP_H
