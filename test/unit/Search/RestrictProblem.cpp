//===- RestrictProblem.cpp - search problems with fewer choices -----------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RandomProblem.h"
#include <algorithm>
#include <set>

using namespace tandem::cost;
using namespace tandem::cost::test;

std::optional<Pin> test::makeRandomPin(const SearchProblem &problem,
                                       Random &random) {
  std::vector<unsigned> arguments;
  for (unsigned op = 0; op < problem.operators.size(); ++op)
    if (problem.operators[op].operands.empty() &&
        problem.getSignatures(op).size() > 1)
      arguments.push_back(op);
  if (arguments.empty())
    return std::nullopt;
  Pin pin{random.pick(arguments), {}};
  unsigned count = problem.getSignatures(pin.op).size();
  unsigned one = random.below(count);
  for (unsigned i = 0; i < count; ++i)
    if (i == one || (count > 2 && random.chance(0.2)))
      pin.signatures.push_back(i);
  return pin;
}

/// Gives an operator signatures of its own.
static void restrict(SearchProblem &problem, unsigned op,
                     const std::vector<unsigned> &signatures) {
  SignatureSet set;
  for (unsigned index : signatures)
    set.push_back(problem.getSignatures(op)[index]);
  problem.operators[op].signatureSet = problem.signatureSets.size();
  problem.signatureSets.push_back(std::move(set));
}

SearchProblem test::applyPin(SearchProblem problem, const Pin &pin) {
  std::set<unsigned> tied = {pin.op};
  for (auto [a, b] : problem.ties)
    if (a == pin.op || b == pin.op)
      tied.insert({a, b});
  for (unsigned op : tied)
    restrict(problem, op, pin.signatures);
  return problem;
}

void test::addAgain(SearchProblem &problem, Random &random) {
  for (Operator &op : problem.operators)
    op.isAgain = op.kind == Operator::Kind::Compute &&
                 op.pass != Pass::Update && random.chance(0.5);
}

std::optional<SearchProblem> test::withoutDuplex(SearchProblem problem) {
  int axis = problem.getTimeAxis();
  if (axis < 0)
    return std::nullopt;
  auto isWhole = [&](const Layout &layout) { return layout[axis] == kFull; };
  for (unsigned op = 0; op < problem.operators.size(); ++op) {
    const SignatureSet &set = problem.getSignatures(op);
    std::vector<unsigned> whole;
    for (unsigned i = 0; i < set.size(); ++i)
      if (std::all_of(set[i].operands.begin(), set[i].operands.end(),
                      isWhole) &&
          std::all_of(set[i].results.begin(), set[i].results.end(), isWhole))
        whole.push_back(i);
    if (whole.empty())
      return std::nullopt;
    restrict(problem, op, whole);
  }
  return problem;
}
