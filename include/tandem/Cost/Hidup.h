//===- Hidup.h - HiDup's cost model -----------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The parts of the accountings `hidup-serial` and `hidup-overlapped` that an
// algorithm may use while it builds a plan: what a change of form costs in both
// directions, and what a stage costs (HiDup, section 4.2, equation 5).
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_COST_HIDUP_H
#define TANDEM_COST_HIDUP_H

#include "tandem/Cost/SearchProblem.h"
#include <algorithm>

namespace tandem::cost {

/// Seconds of a change of form in the forward pass and of its counterpart in
/// the backward pass. Bytes are those of the whole tensor.
struct HidupChange {
  double forward = 0, backward = 0;
};

/// Nothing if there is no such change; zeros where `from` is `to`.
///
///   from -> to               forward          backward
///   full -> gather(d)        free             free
///   gather(d) -> full        all-gather       reduce-scatter
///   gather(d) -> gather(e)   all-to-all       all-to-all
///   reduce -> full           all-reduce       all-reduce
///   reduce -> gather(d)      reduce-scatter   all-gather
///   replicate -> full        free             all-reduce
///   replicate -> gather(d)   free             all-reduce
std::optional<HidupChange> getHidupChange(const SearchProblem &problem,
                                          unsigned tensor, Form from, Form to);

/// Sums over a stage, in seconds or any other unit.
template <typename Time> struct HidupStage {
  /// Forward computation of the stage before (0 for the first) and of this one;
  /// the backward ones are twice that.
  Time previous = 0, computation = 0;
  /// Communication.
  Time forward = 0, backward = 0;
};

/// phi + psi of a stage. The total of a plan is the sum over its stages and the
/// forward computation of the last one.
template <typename Time>
Time getHidupTime(Accounting accounting, const HidupStage<Time> &stage) {
  Time phi = std::max(stage.previous, stage.forward) +
             std::max(stage.computation, stage.forward);
  if (accounting == Accounting::HidupSerial)
    return phi + 2 * (stage.previous + stage.backward + stage.computation);
  return phi + std::max(2 * stage.previous, stage.backward) +
         std::max(2 * stage.computation, stage.backward);
}

/// Whether the accountings mean something for this problem: one space axis, no
/// time axis, all operators forward, no ties. One line in `error` if not.
bool checkHidupProblem(const SearchProblem &problem, std::string &error);

} // namespace tandem::cost

#endif // TANDEM_COST_HIDUP_H
