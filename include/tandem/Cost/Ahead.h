//===- Ahead.h - recomputation beside collectives of its stage --*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which operators a stage can run ahead (Cost.h, *Ahead*) follows from the
// forms and from where the stage begins: what they read has to be there.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_COST_AHEAD_H
#define TANDEM_COST_AHEAD_H

#include "tandem/Cost/Changes.h"
#include <span>

namespace tandem::cost {

/// Of an operator that cannot run ahead in any stage.
constexpr unsigned kNeverAhead = ~0u;

/// Per operator, the first one with which a stage can begin that runs it ahead.
/// `signatures` are those of a plan. `copiesFrom` says the same of the copies
/// that each operator reads: one more than the operator for which each is made;
/// 0 for free ones of arguments (`isFreeOfArgument`).
std::vector<unsigned> findAheadFrom(const SearchProblem &problem,
                                    std::span<const unsigned> producers,
                                    std::span<const unsigned> signatures,
                                    std::span<const unsigned> copiesFrom);

/// Whether an argument can be brought from one layout to another in no time.
bool isFreeOfArgument(const SearchProblem &problem, unsigned producer,
                      const ChangeCost &change);

} // namespace tandem::cost

#endif // TANDEM_COST_AHEAD_H
