//===- Exhaustive.h - exhaustive search -------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The oracle of the other algorithms: it knows no dominance and shares no code
// with them. It goes over all signatures (tied operators take the same index),
// all divisions of the order into stages, all sets of copies that may be kept
// and all sets of gradients' collectives that may wait, and asks `cost` about
// each. Left out is only what cannot be cheaper:
//
//  * accounting `tandem`: cuts beside arguments, which exist before the first
//    stage, so that a stage of arguments alone would be an empty step;
//  * copies kept for a pass that changes no layout of their tensor;
//  * accounting `tandem`, on one rank with one strand: cuts, since nothing is
//    sent or waits.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_SEARCH_EXHAUSTIVE_H
#define TANDEM_SEARCH_EXHAUSTIVE_H

#include "tandem/Search/Search.h"

namespace tandem::search {

/// Plans that `searchExhaustive` looks at before it gives up.
constexpr uint64_t kMaxExhaustivePlans = 10'000'000;

/// Number of signatures times divisions into stages (before it is known which
/// of them are legal, without the choices of copies); saturates.
uint64_t countPlans(const cost::SearchProblem &problem);

/// Called with the decisions of a legal plan and what they cost; false stops
/// the enumeration. The memory limit is not looked at.
using PlanVisitor =
    std::function<bool(const cost::Plan &, const cost::CostReport &)>;

/// Visits every legal plan, in lexicographic order of the signatures. False,
/// with one line in `error`, if there are more than `limit` candidates, legal
/// or not; `numVisited` counts them.
bool enumeratePlans(const cost::SearchProblem &problem, uint64_t limit,
                    const PlanVisitor &visit, uint64_t &numVisited,
                    std::string &error);

} // namespace tandem::search

#endif // TANDEM_SEARCH_EXHAUSTIVE_H
