//===- ScheduleRules.h - keys of list scheduling ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_PIPELINE_SCHEDULERULES_H
#define TANDEM_LIB_SEARCH_PIPELINE_SCHEDULERULES_H

#include "ScheduleModel.h"

namespace tandem::pipeline::schedule {

/// Which of a point's sections comes first.
enum class SectionRule : uint8_t {
  /// The one furthest in the pass.
  Deepest,
  /// The one least far in it: a section has all its microbatches in a row.
  Shallowest,
  /// That of the oldest microbatch.
  Oldest,
  /// The one least far, by rounds of as many microbatches as points.
  Rounds,
};

/// What comes first on a point that is free.
struct Rule {
  /// Ranks of F, I and W; B has that of I.
  unsigned ranks[3] = {1, 0, 2};
  SectionRule forward = SectionRule::Deepest, backward = SectionRule::Deepest;
};

/// Rules, the most promising first. Without points of several sections those
/// that differ in sections alone are left out.
std::vector<Rule> getRules(bool hasSeveralSections);

/// The key of each operation.
std::vector<double> makeKeys(const Model &model, const Rule &rule);

} // namespace tandem::pipeline::schedule

#endif // TANDEM_LIB_SEARCH_PIPELINE_SCHEDULERULES_H
