//===- run.h - another order for a Program ----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_TANDEM_REPLAN_RUN_H
#define TANDEM_TOOLS_TANDEM_REPLAN_RUN_H

#include "options.h"

namespace tandem::replan {

rt::Status run(const Options &options);

} // namespace tandem::replan

#endif // TANDEM_TOOLS_TANDEM_REPLAN_RUN_H
