//===- collectives.h - times of collectives -------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_TANDEM_PROFILE_COLLECTIVES_H
#define TANDEM_TOOLS_TANDEM_PROFILE_COLLECTIVES_H

#include "measure.h"
#include "tandem/Cost/Cluster.h"

namespace tandem::profile {

/// Digits beyond the fourth are noise.
double roundDigits(double value);

/// Measures the collectives of the groups that an axis of a mesh over the nodes
/// of `cluster` can have, of about so many bytes, and sets them, the links and
/// the latency of a piece.
rt::Status measureCollectives(const Effort &effort,
                              const std::vector<int64_t> &bytes,
                              cost::Cluster &cluster);

} // namespace tandem::profile

#endif // TANDEM_TOOLS_TANDEM_PROFILE_COLLECTIVES_H
