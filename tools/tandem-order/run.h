//===- run.h - what tandem-order does ---------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_TANDEM_ORDER_RUN_H
#define TANDEM_TOOLS_TANDEM_ORDER_RUN_H

#include "options.h"

namespace tandem::order {

/// Prints an order, or what the one of a file costs.
rt::Status run(const Options &options);

} // namespace tandem::order

#endif // TANDEM_TOOLS_TANDEM_ORDER_RUN_H
