//===- ChainMaker.h - random chains in which sources are chosen -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_UNIT_SEARCH_CHAINMAKER_H
#define TANDEM_TEST_UNIT_SEARCH_CHAINMAKER_H

#include "ProblemBuilder.h"
#include "RandomProblem.h"

namespace tandem::cost::test {

/// Forward operators, some of which also read an earlier result; backward
/// readers take what was saved or what a clone makes again, which may be read
/// from what another clone makes.
class ChainMaker {
public:
  explicit ChainMaker(uint64_t seed) : random(seed) {}

  SearchProblem run() {
    builder.addAxis("data", 2, perByte(random.between(0, 0.02)));
    if (random.chance(0.4))
      builder.addTime(2, perByte(0));
    unsigned length = random.choose(2, 3);
    std::vector<unsigned> values{addTensor()}, clones;
    builder.addInput(values[0], getForms({}, 1));
    for (unsigned i = 1; i <= length; ++i) {
      std::vector<unsigned> operands{values[i - 1]};
      if (i > 1 && random.chance(0.4))
        operands.push_back(values[i - 2]);
      values.push_back(addTensor());
      addCompute(Pass::Forward, operands, {}, values.back());
    }
    unsigned gradient = values.back();
    for (unsigned i = length; i-- > 1;) {
      unsigned clone = addTensor();
      builder.addCompute(Pass::Backward, {values[i - 1]}, {clone},
                         getForms({{0}}, 1, true));
      unsigned next = addTensor();
      addCompute(Pass::Backward, {gradient}, {values[i], clone}, next);
      gradient = next;
    }
    return builder.problem;
  }

private:
  unsigned addTensor() {
    return builder.addTensor("t", {int64_t(4 * random.choose(1, 20))});
  }
  Layout getLayout(bool isSplit) const {
    Layout layout;
    layout[0] = isSplit ? 0 : kFull;
    if (builder.problem.getTimeAxis() >= 0)
      layout[1] = 0;
    return layout;
  }
  static Layout getAbsent() {
    Layout layout;
    layout.forms.fill(kAbsent);
    for (unsigned axis = 2; axis < kMaxAxes; ++axis)
      layout[axis] = kFull;
    return layout;
  }
  /// All tensors split, or none, by the number of results and the operands, of
  /// each group of which one is read; or all are absent.
  SignatureSet getForms(const std::vector<std::vector<unsigned>> &operands,
                        unsigned numResults, bool mayBeAbsent = false) {
    SignatureSet set;
    Layout absent = getAbsent();
    if (builder.problem.axes.size() == 1)
      absent[1] = kFull;
    if (mayBeAbsent)
      set.push_back({{absent}, {absent}, 0, 0});
    for (bool isSplit : {false, true}) {
      Layout layout = getLayout(isSplit);
      size_t numChoices = operands.empty() ? 1 : operands.back().size();
      double seconds = static_cast<double>(random.choose(1, 4));
      for (size_t choice = 0; choice < numChoices; ++choice) {
        Signature &signature = set.emplace_back();
        signature.seconds = isSplit ? seconds / 2 : seconds;
        for (const std::vector<unsigned> &group : operands)
          for (size_t i = 0; i < group.size(); ++i)
            signature.operands.push_back(
                group.size() == 1 || i == choice ? layout : absent);
        signature.results.assign(numResults, layout);
      }
      if (operands.empty() || random.chance(0.5))
        break;
    }
    return set;
  }
  void addCompute(Pass pass, std::vector<unsigned> operands,
                  const std::vector<unsigned> &choice, unsigned result) {
    std::vector<std::vector<unsigned>> groups;
    for (unsigned operand : operands)
      groups.push_back({operand});
    if (!choice.empty())
      groups.push_back(choice);
    operands.insert(operands.end(), choice.begin(), choice.end());
    builder.addCompute(pass, operands, {result}, getForms(groups, 1));
  }

  Random random;
  ProblemBuilder builder;
};

} // namespace tandem::cost::test

#endif // TANDEM_TEST_UNIT_SEARCH_CHAINMAKER_H
