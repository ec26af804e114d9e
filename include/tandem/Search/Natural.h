//===- Natural.h - owners of backward operators -----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_SEARCH_NATURAL_H
#define TANDEM_SEARCH_NATURAL_H

#include "tandem/Cost/Plan.h"
#include <optional>
#include <string>

namespace tandem::search {

/// Says to which forward operator each one of the other passes belongs
/// (`attachedTo`): the last one that reads or makes what it reads. Backward
/// operators follow the forward ones in reverse: none is attached to a later
/// operator than what it reads of the backward pass.
void attachBackward(cost::SearchProblem &problem);

/// A plan with the signatures of `plan`: stages as few or as many as can be,
/// and gradients that wait or not, whichever is cheapest. Nothing, with one
/// line in `error`, if none is legal.
std::optional<cost::Plan> completePlan(const cost::SearchProblem &problem,
                                       cost::Plan plan, std::string &error);

/// Lets the stages of a plan of `completePlan` run ahead that are shorter so
/// and fit (Cost.h, *Ahead*).
void runAhead(const cost::SearchProblem &problem, cost::Plan &plan);

} // namespace tandem::search

#endif // TANDEM_SEARCH_NATURAL_H
