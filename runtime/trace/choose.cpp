//===- choose.cpp - the step and the ranks of a picture -------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "trace/choose.h"
#include "core/text.h"

#include <algorithm>

namespace tandem::rt::trace {

namespace {
constexpr size_t kMostRanks = 8;

/// The one of median length among those that ran to their end.
const StepRun *medianOf(const std::vector<StepRun> &steps) {
  std::vector<const StepRun *> list;
  for (const StepRun &step : steps)
    if (step.isComplete)
      list.push_back(&step);
  for (const StepRun &step : steps)
    if (list.empty())
      list.push_back(&step);
  if (list.empty())
    return nullptr;
  std::sort(list.begin(), list.end(), [](auto *a, auto *b) {
    return std::pair(lengthOf(a->span), a->step) <
           std::pair(lengthOf(b->span), b->step);
  });
  return list[(list.size() - 1) / 2];
}

Expected<const StepRun *> chooseStep(const std::vector<StepRun> &steps,
                                     std::optional<int64_t> wanted) {
  if (steps.empty())
    return Status::error("nothing was recorded: no command has run in the "
                         "timeline");
  if (!wanted)
    return medianOf(steps);
  for (const StepRun &step : steps)
    if (wanted == step.step)
      return &step;
  return errorOf("step ", *wanted, " was not recorded, expected one of ",
                 steps.front().step, " to ", steps.back().step);
}
} // namespace

Expected<ChosenStep> choose(const std::vector<StepRun> &steps,
                            const PictureOptions &options) {
  Expected<const StepRun *> step = chooseStep(steps, options.step);
  if (!step.ok())
    return step.status();
  ChosenStep chosen{.step = *step};
  const std::vector<int64_t> &wanted = options.ranks;
  for (const RankStep &rank : chosen.step->ranks)
    if (wanted.empty()
            ? chosen.ranks.size() < kMostRanks
            : std::count(wanted.begin(), wanted.end(), rank.rank) > 0)
      chosen.ranks.push_back(&rank);
  for (int64_t number : wanted)
    if (std::none_of(chosen.ranks.begin(), chosen.ranks.end(),
                     [&](auto *rank) { return rank->rank == number; }))
      return errorOf("rank ", number, " has no events in step ",
                     chosen.step->step);
  return chosen;
}

} // namespace tandem::rt::trace
