//===- StepAttrs.h - attributes of arguments and results --------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The attributes of a function's arguments are one list: to set one of n
// arguments' writes the list of all n anew. Here all are changed at once.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_ANALYSIS_STEPATTRS_H
#define TANDEM_ANALYSIS_STEPATTRS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tandem {

/// Changes the attributes of an argument or result.
using AttrEdit =
    llvm::function_ref<void(unsigned index, mlir::NamedAttrList &attrs)>;

/// Calls `edit` for each argument, and for each result, in order.
void editArgAttrs(mlir::func::FuncOp step, AttrEdit edit);
void editResultAttrs(mlir::func::FuncOp step, AttrEdit edit);

} // namespace tandem

#endif // TANDEM_ANALYSIS_STEPATTRS_H
