//===- HostLimit.h - memory of the host that a step may take ----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_EXECUTION_HOSTLIMIT_H
#define TANDEM_LIB_EXECUTION_HOSTLIMIT_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Execution/Compile.h"

namespace tandem {

/// The most bytes of its host that a rank may take for values that wait there
/// for the backward pass: the option, or no limit where a pin asks for it or
/// the named cluster has a link `host`, or else 0. So it is 0 on devices that
/// do not copy from the host, and for pipelines, unless the option says more:
/// then `error` is one line.
int64_t findHostLimit(const CompileOptions &options, mlir::func::FuncOp step,
                      bool isPipeline, std::string &error);

/// By how much the Program exceeds the option; empty if it does not.
std::string describeHostExcess(const CompileOptions &options,
                               const rt::Program &program);

} // namespace tandem

#endif // TANDEM_LIB_EXECUTION_HOSTLIMIT_H
