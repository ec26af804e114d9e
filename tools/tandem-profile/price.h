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

/// Writes the seconds of a Program's commands (tandem/Prediction/Prediction.h)
/// as a table that tandem-run takes.
rt::Status price(const Options &options);

} // namespace tandem::profile

#endif // TANDEM_TOOLS_TANDEM_PROFILE_PRICE_H
