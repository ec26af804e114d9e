//===- calibrate.h - rates by what commands took ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_TANDEM_PROFILE_CALIBRATE_H
#define TANDEM_TOOLS_TANDEM_PROFILE_CALIBRATE_H

#include "options.h"

namespace tandem::profile {

/// Writes a cluster file whose rates, and bandwidth of memory, are those that a
/// Program's commands reached:
///
/// * products and convolutions by data type, and attention: the efficiency of
///   all those of about as many FLOP, factor 4, together;
/// * fused kernels: a rate and a bandwidth with the least sum of |log(priced /
///   measured)|, weighted by seconds, and a bandwidth that products reached.
///
/// Commands that take no longer than the file's overhead do not count.
///
/// The cluster has one kind of devices. What the Program has no commands of
/// stays as it is.
rt::Status calibrate(const Options &options);

} // namespace tandem::profile

#endif // TANDEM_TOOLS_TANDEM_PROFILE_CALIBRATE_H
