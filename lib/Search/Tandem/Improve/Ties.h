//===- Ties.h - choice among plans of equal cost ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where links are fast, or what waits is hidden, many plans cost the same to
// the last digit. Of these the one is returned that has the fewest collectives;
// of several such ones that with the smallest peak, then that whose parameters
// and states hold the fewest bytes, then one that splits earlier parameters.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEM_IMPROVE_TIES_H
#define TANDEM_LIB_SEARCH_TANDEM_IMPROVE_TIES_H

#include "tandem/Cost/Plan.h"
#include <functional>

namespace tandem::search {

/// Makes another plan of `plan`, a legal one, that costs no more but for
/// rounding (10^-12 of it) and is no later in that order; with what is derived,
/// and claimed. Changes the forms of one or two
/// parameters at a time, with their states and updates; so it need not be the
/// first of all equal plans. Stops after a fixed amount of work, or when
/// `proceeds` says so.
void settleTies(const cost::SearchProblem &problem, cost::Plan &plan,
                const std::function<bool()> &proceeds);

/// Bytes of parameters and states in the layouts that they are stored in.
int64_t getResidentBytes(const cost::SearchProblem &problem,
                         const std::vector<unsigned> &signatures);

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_IMPROVE_TIES_H
