//===- run.h - execution of a Program by tandem-run -------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_TANDEM_RUN_RUN_H
#define TANDEM_TOOLS_TANDEM_RUN_RUN_H

#include "options.h"

namespace tandem::run {

/// Lists or runs the program; prints losses on standard output.
rt::Status run(const Options &options);

} // namespace tandem::run

#endif // TANDEM_TOOLS_TANDEM_RUN_RUN_H
