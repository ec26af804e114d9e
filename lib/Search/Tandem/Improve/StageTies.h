//===- StageTies.h - the fewest stages of equal cost ------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A cost is a sum over operators where nothing is sent, so that each cut may
// stand or not. But kernels are formed inside of stages: a cut that hides
// nothing keeps operators apart that one kernel computes. Where memory is
// scarce cuts stay that lower the peak.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEM_IMPROVE_STAGETIES_H
#define TANDEM_LIB_SEARCH_TANDEM_IMPROVE_STAGETIES_H

#include "tandem/Cost/Plan.h"
#include <functional>

namespace tandem::search {

/// Joins stages of `plan`, a legal one with claims, where it then costs no more
/// but for rounding, and holds no more. Stops after a fixed amount of work, or
/// when `proceeds` says so.
void joinStages(const cost::SearchProblem &problem, cost::Plan &plan,
                const std::function<bool()> &proceeds);

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_IMPROVE_STAGETIES_H
