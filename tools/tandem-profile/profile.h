//===- profile.h - a cluster file for this machine ------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_TANDEM_PROFILE_PROFILE_H
#define TANDEM_TOOLS_TANDEM_PROFILE_PROFILE_H

#include "options.h"

namespace tandem::profile {

/// Measures and writes, in process 0 of a job; says on standard error what it
/// does.
rt::Status profile(const Options &options);

/// Whether a cluster file may be written there, which is none of `inputs`.
rt::Status checkClusterOutput(const std::string &path,
                              const std::vector<std::string> &inputs);

/// Writes a cluster file, to standard output without a path.
rt::Status writeCluster(const std::string &text, const std::string &path);

} // namespace tandem::profile

#endif // TANDEM_TOOLS_TANDEM_PROFILE_PROFILE_H
