//===- run.h - commands of tandem-trace -------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_TANDEM_TRACE_RUN_H
#define TANDEM_TOOLS_TANDEM_TRACE_RUN_H

#include "options.h"

namespace tandem::trace {

/// Prints a report on standard output, or writes what was asked for.
rt::Status run(const Options &options);

} // namespace tandem::trace

#endif // TANDEM_TOOLS_TANDEM_TRACE_RUN_H
