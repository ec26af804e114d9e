//===- ScheduleRules.cpp - keys of list scheduling ------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ScheduleRules.h"

using namespace tandem::pipeline::schedule;
using tandem::orders::ActionKind;

std::vector<Rule>
tandem::pipeline::schedule::getRules(bool hasSeveralSections) {
  static constexpr unsigned ranks[][3] = {{1, 0, 2}, {2, 0, 1}, {1, 0, 0},
                                          {0, 1, 2}, {0, 0, 1}, {0, 1, 1}};
  static constexpr SectionRule rules[] = {
      SectionRule::Deepest, SectionRule::Rounds, SectionRule::Shallowest,
      SectionRule::Oldest};
  std::vector<Rule> result;
  for (SectionRule forward : rules)
    for (SectionRule backward : rules) {
      for (const auto &[first, second, third] : ranks)
        result.push_back({{first, second, third}, forward, backward});
      if (!hasSeveralSections)
        return result;
    }
  return result;
}

/// A number for the letter's place in its pass, which grows along it.
static double getDepth(const Model &model, const Letter &letter) {
  bool isForward = letter.kind == ActionKind::Forward;
  unsigned last = model.letters.back().section;
  return isForward ? letter.section : last - letter.section;
}

static double getKey(const Model &model, const Letter &letter, unsigned index,
                     SectionRule rule) {
  double depth = getDepth(model, letter);
  double numSections = model.letters.back().section + 1.0;
  switch (rule) {
  case SectionRule::Deepest:
    return numSections - depth;
  case SectionRule::Shallowest:
    return depth;
  case SectionRule::Oldest:
    return index * numSections + numSections - depth;
  case SectionRule::Rounds:
    break;
  }
  return index / model.numPoints * numSections + depth;
}

std::vector<double> tandem::pipeline::schedule::makeKeys(const Model &model,
                                                         const Rule &rule) {
  constexpr double kRank = 1e12;
  std::vector<double> keys(model.numOperations);
  for (const Letter &letter : model.letters) {
    bool isForward = letter.kind == ActionKind::Forward;
    double rank = rule.ranks[isForward                                   ? 0
                             : letter.kind == ActionKind::BackwardWeight ? 2
                                                                         : 1];
    for (unsigned i = 0; i < letter.count; ++i)
      keys[letter.first + i] =
          kRank * rank +
          getKey(model, letter, i, isForward ? rule.forward : rule.backward);
  }
  return keys;
}
