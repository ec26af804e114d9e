//===- price.h - prices of a Program's commands ---------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_TANDEM_PROFILE_PRICE_H
#define TANDEM_TOOLS_TANDEM_PROFILE_PRICE_H

#include "options.h"

namespace tandem::profile {

/// Writes the seconds of a Program's commands, by the prices that plans are
/// made with, as a table that tandem-run takes.
///
/// A command costs max(FLOP / rate, bytes / bandwidth) + overhead of what it
/// does: a fused kernel has the FLOPs of all its operators, and the bytes that
/// it reads and writes in memory. A product that the cluster file has measured
/// takes that time. A Program does not say in which type a kernel computes:
/// f32.
rt::Status price(const Options &options);

} // namespace tandem::profile

#endif // TANDEM_TOOLS_TANDEM_PROFILE_PRICE_H
