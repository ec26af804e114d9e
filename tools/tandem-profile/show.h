//===- show.h - prices of a cluster file ----------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_TANDEM_PROFILE_SHOW_H
#define TANDEM_TOOLS_TANDEM_PROFILE_SHOW_H

#include "options.h"

namespace tandem::profile {

/// Prints devices, limits, and the price of each collective on each axis; with
/// -o writes the cluster file as it is after --set.
rt::Status show(const Options &options);

} // namespace tandem::profile

#endif // TANDEM_TOOLS_TANDEM_PROFILE_SHOW_H
