//===- Trial.h - random problems with known optima --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the tests of algorithms share: random problems, pinned and limited, with
// the optimum that an exhaustive search of the unpinned, unlimited problem
// found, and with what matters in it.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_UNIT_SEARCH_TRIAL_H
#define TANDEM_TEST_UNIT_SEARCH_TRIAL_H

#include "tandem/Search/Search.h"

namespace tandem::cost::test {

struct Trial {
  uint64_t seed = 0;
  SearchProblem problem;
  /// The least cost among all plans that obey pin and limit, in s; infinite if
  /// there are none.
  double optimum = 0;
  /// What `searchExhaustive` says; not of every trial.
  std::optional<search::SearchResult> oracle;

  /// The limit makes the optimum dearer.
  bool limitBinds = false;
  /// The pin does.
  bool pinBinds = false;
  /// With β = γ = 1, where duplex gains nothing, other signatures are better.
  bool duplexChangesForms = false;
  /// The optimum costs more if nothing waits.
  bool hasWaiting = false;
  /// In an optimum the strands come together, and part again.
  bool joinsStrands = false;

  /// Of the graph: two axes of space, a sum of two branches, and more than
  /// three forward operators.
  bool hasTwoAxes = false, hasBranch = false, isLong = false;
};

/// The trials under accounting `tandem`, made once per process.
const std::vector<Trial> &getTrials();
/// Those under the accountings `hidup-*`.
const std::vector<Trial> &getHidupTrials();

/// Trials of the generator's richer problems, some with a memory limit, without
/// pins; made anew.
std::vector<Trial> makeRichTrials(unsigned count);

/// The seeds of TrialSeeds.h: `number` of the first `count` ones, such that
/// each of the facts about a trial holds in more than a quarter of them.
std::vector<uint64_t> chooseSeeds(uint64_t count, unsigned number);

/// Calls `work` for 0 ... count - 1 on all cores.
void runParallel(unsigned count, const std::function<void(unsigned)> &work);

} // namespace tandem::cost::test

#endif // TANDEM_TEST_UNIT_SEARCH_TRIAL_H
