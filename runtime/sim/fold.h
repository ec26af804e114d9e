//===- fold.h - ranks that do the same --------------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two ranks do the same at the same time where a symmetry of the whole takes
// one to the other: a permutation of the coordinates of an axis that keeps rank
// programs, kinds of devices, stragglers and links. Groups it keeps by itself.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_SIM_FOLD_H
#define TANDEM_RT_SIM_FOLD_H

#include "tandem_rt/simulate.h"

namespace tandem::rt::sim {

struct Folding {
  /// By rank: the first one that does the same.
  std::vector<int64_t> first = {};
  /// By link: that of the first rank in its place, and how many links are such.
  std::vector<uint32_t> firstLink = {};
  std::vector<double> numLinks = {};
};

/// With jitter each rank and link stands for itself.
Folding foldRanks(const TimelineHead &head, const Machine &machine,
                  const SimulationOptions &options);

} // namespace tandem::rt::sim

#endif // TANDEM_RT_SIM_FOLD_H
