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
/// the named cluster has a link `host`, or else 0. On devices that do not copy
/// from the host it is 0, and `error` is one line if the option says more.
int64_t findHostLimit(const CompileOptions &options, mlir::func::FuncOp step,
                      std::string &error);

/// Marks the parameters of a step in front of `import` that lie on the host:
/// the options say so by pins, or a plan file that they name.
void markStored(const CompileOptions &options, mlir::func::FuncOp step);

/// Pins that put all states of the optimizer on the host, such as
/// `exp_avg.*:host`; nothing where a parameter has such a name.
std::vector<std::string> listStatePins(mlir::func::FuncOp step);

/// What else may be done where memory does not suffice, behind an error: allow
/// states of the optimizer on the host. Empty, if it is allowed, or the device
/// does not copy from there, or the step has none.
std::string suggestHost(const CompileOptions &options, mlir::func::FuncOp step);

/// One line, if a plan to start from has a pin of such parameters that the
/// options have not; else nothing.
std::string findMissingPin(const CompileOptions &options);

/// What a Program takes too much of the host.
struct HostExcess {
  /// Of the rank that takes most: bytes over the limit, 0 or less if it takes
  /// no more, and bytes of values that wait there within a step.
  int64_t bytes = 0, sent = 0;
  std::string why;
};

HostExcess findHostExcess(const CompileOptions &options,
                          const rt::Program &program);

/// Bytes of values, whole, that a planned step sends to the host.
int64_t countSent(mlir::func::FuncOp step);

} // namespace tandem

#endif // TANDEM_LIB_EXECUTION_HOSTLIMIT_H
