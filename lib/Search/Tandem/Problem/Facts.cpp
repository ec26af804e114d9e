//===- Facts.cpp - lookup tables of a problem -----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Problem/Facts.h"
#include "Tandem/Limits.h"
#include <algorithm>

using namespace tandem::cost;
using namespace tandem::search;

Facts::Facts(const SearchProblem &problem, const MechanismSet &without)
    : TensorIndex(problem), without(without), timeAxis(problem.getTimeAxis()),
      numStrands(problem.getNumStrands()), groups(problem.getTieGroups()),
      groupOf(problem.operators.size()), isTiedOutput(problem.getTiedOutputs()),
      producers(problem.getProducers()), hasAgain(problem.hasAgain()) {
  for (unsigned group = 0; group < groups.size(); ++group)
    for (unsigned op : groups[group])
      groupOf[op] = group;
  for (unsigned i = 0; i < tensors.size(); ++i) {
    roots.push_back(problem.getRoot(i));
    if (roots[i] != i)
      views.push_back(i);
    hasChoice.push_back(
        std::any_of(tensors[i].uses.begin(), tensors[i].uses.end(),
                    [&](const TensorUse &use) { return mayBeAbsent(use); }));
  }
  // A gradient leaves behind the slot of its own computation.
  bool isBehind = false;
  for (unsigned op = 0; op < problem.operators.size(); ++op) {
    const Operator &info = problem.operators[op];
    bool isUpdate = info.pass == Pass::Update;
    mayHide.push_back(isBehind && !isUpdate);
    if (isUpdate || isArgument(op))
      continue;
    for (unsigned tensor : info.results)
      isBehind |= tensors[tensor].numUpdateUses > 0;
  }
}

bool Facts::isLarge() const {
  return problem.operators.size() > kManyOperators;
}

bool Facts::isArgument(unsigned op) const {
  return problem.operators[op].isArgument();
}

Layout Facts::getSummed(Layout layout) const {
  if (timeAxis >= 0)
    layout[timeAxis] = kFull;
  return layout;
}

const std::vector<TensorUse> &
Facts::getUses(const std::vector<unsigned> &signatures, unsigned tensor,
               std::vector<TensorUse> &scratch) const {
  const std::vector<TensorUse> &all = tensors[tensor].uses;
  if (!hasChoice[tensor])
    return all;
  scratch.clear();
  for (const TensorUse &use : all)
    if (!getWanted(signatures, use).isAbsent())
      scratch.push_back(use);
  return scratch;
}

bool Facts::isFolded(unsigned tensor, const Layout &produced,
                     const Layout &ofRoot, bool isSummed) const {
  unsigned root = roots[tensor];
  return root != tensor && !isSummed &&
         isOverTime(produced) == isOverTime(ofRoot) &&
         problem.getBytes(tensor, produced) == problem.getBytes(root, ofRoot);
}

bool Facts::mayWait(unsigned tensor) const {
  unsigned producer = tensors[tensor].producer;
  return !isArgument(producer) &&
         problem.operators[producer].pass != Pass::Update;
}

bool Facts::takesSum(unsigned op, const Layout &produced,
                     const Layout &wanted) const {
  return timeAxis >= 0 && problem.operators[op].pass == Pass::Update &&
         produced[timeAxis] == kReduce && wanted[timeAxis] == kFull;
}
