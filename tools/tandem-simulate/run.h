//===- run.h - simulation of a Program --------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_TANDEM_SIMULATE_RUN_H
#define TANDEM_TOOLS_TANDEM_SIMULATE_RUN_H

#include "options.h"

namespace tandem::simulate {

/// Simulates, writes the trace if one is asked for, and prints the report.
rt::Status run(const Options &options);

} // namespace tandem::simulate

#endif // TANDEM_TOOLS_TANDEM_SIMULATE_RUN_H
