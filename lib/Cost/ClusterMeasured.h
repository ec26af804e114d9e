//===- ClusterMeasured.h - line fit of measured times -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Measured times of one collective become a line over its bytes. Times that
// contradict one another, or whose line would make bytes free, are refused when
// a cluster file is read.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_COST_CLUSTERMEASURED_H
#define TANDEM_LIB_COST_CLUSTERMEASURED_H

#include "tandem/Cost/Cluster.h"

namespace tandem::cost {

/// The line latency + bytes * rate, both not negative, with the least sum of
/// squared relative errors, each times its seconds: a step takes the sum of its
/// collectives' seconds, and a link that lets the first bytes pass for nothing
/// has no line. With one size the formula's latency stays.
/// `points`: at least one, of one kind, link and number of ranks.
ChangeRate fitMeasured(const std::vector<MeasuredCollective> &points,
                       ChangeRate formula);

/// One line `PLACE: found X, expected Y`, or nothing: a measurement that stands
/// twice, or larger messages that are faster. A place per measurement, in the
/// order of the cluster's.
std::string findContradiction(const Cluster &cluster,
                              const std::vector<std::string> &operatorPlaces,
                              const std::vector<std::string> &collectivePlaces);

} // namespace tandem::cost

#endif // TANDEM_LIB_COST_CLUSTERMEASURED_H
