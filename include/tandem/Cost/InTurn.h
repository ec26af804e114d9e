//===- InTurn.h - collectives that may not start early ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// In a serial slot (Cost.h, *Slots*) collectives are charged behind the
// computation of the step before, and memory counts what they make from their
// own stage on. A schedule may begin them beside that computation, which saves
// time that the cost does not count and holds bytes that the peak does not.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_COST_INTURN_H
#define TANDEM_COST_INTURN_H

#include "tandem/Cost/Cost.h"

namespace tandem::cost {

/// The stages, ascending, whose first slot is serial and whose collectives have
/// to follow the computation of the stages before: begun as soon as their
/// operands and the queue allow, what they make would not fit into the memory
/// limit beside what an earlier stage holds. Of collectives of an earlier stage
/// that need not, bytes count as held from there on. What a stage makes ahead
/// is there as soon as it begins. None for a plan that is not legal.
std::vector<unsigned> findInTurn(const SearchProblem &problem, const Plan &plan,
                                 ChangeTable &table);

} // namespace tandem::cost

#endif // TANDEM_COST_INTURN_H
