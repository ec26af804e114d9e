//===- Walk.cpp - the order in which labels decide ------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Labels/Walk.h"
#include <algorithm>

using namespace tandem::cost;
using namespace tandem::search;

/// What reads the argument first; the argument itself if nothing does.
static unsigned getFirstReader(const Facts &facts, unsigned op) {
  unsigned first = facts.problem.operators.size();
  for (unsigned tensor : facts.problem.operators[op].results)
    if (!facts.tensors[tensor].uses.empty())
      first = std::min(first, facts.tensors[tensor].uses.front().op);
  return first == facts.problem.operators.size() ? op : first;
}

LabelWalk::LabelWalk(const Facts &facts) {
  unsigned numOperators = facts.problem.operators.size();
  std::vector<std::vector<unsigned>> argumentsOf(numOperators);
  for (unsigned op = 0; op < numOperators; ++op)
    if (facts.isArgument(op))
      argumentsOf[getFirstReader(facts, op)].push_back(op);
  for (unsigned op = 0; op < numOperators; ++op) {
    for (unsigned argument : argumentsOf[op])
      operators.push_back(argument);
    if (!facts.isArgument(op))
      operators.push_back(op);
  }
  placeOf.resize(numOperators);
  for (unsigned place = 0; place < numOperators; ++place)
    placeOf[operators[place]] = place;
  std::vector<unsigned> first(numOperators, numOperators), last(numOperators);
  for (unsigned op : operators) {
    unsigned group = facts.groupOf[op];
    first[group] = std::min(first[group], placeOf[op]);
    last[group] = placeOf[op];
  }
  for (unsigned op = 0; op < numOperators; ++op) {
    firstOfGroup.push_back(operators[first[facts.groupOf[op]]]);
    lastOfGroup.push_back(operators[last[facts.groupOf[op]]]);
  }
}
