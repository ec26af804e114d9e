//===- WalkTest.cpp - the order in which labels decide --------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProblemBuilder.h"
#include "RandomProblem.h"
#include "Tandem/Labels/Labels.h"
#include <algorithm>
#include <gtest/gtest.h>

using namespace tandem;
using namespace tandem::cost;
using namespace tandem::cost::test;
using namespace tandem::search;

/// Whether nothing but arguments lies between the operator and what reads it
/// first.
static bool isNextToReader(const Facts &facts, const LabelWalk &walk,
                           unsigned op) {
  for (unsigned place = walk.placeOf[op] + 1; place < walk.operators.size();
       ++place) {
    unsigned next = walk.operators[place];
    if (facts.isArgument(next))
      continue;
    const std::vector<unsigned> &read = facts.problem.operators[next].operands;
    return std::count(read.begin(), read.end(),
                      facts.problem.operators[op].results.front()) > 0;
  }
  return false;
}

TEST(WalkTest, argumentsStandBeforeWhatReadsThemFirst) {
  unsigned numMoved = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SearchProblem problem = makeRandomProblem(seed, {.isRich = true});
    Facts facts(problem);
    LabelWalk walk(facts);
    unsigned numOperators = problem.operators.size(), last = 0;
    std::vector<unsigned> first(numOperators, numOperators);
    ASSERT_EQ(walk.operators.size(), numOperators);
    for (unsigned place = 0; place < numOperators; ++place) {
      unsigned op = walk.operators[place];
      ASSERT_EQ(walk.placeOf[op], place);
      unsigned &group = first[facts.groupOf[op]];
      EXPECT_EQ(walk.isFirstOfGroup(op), group == numOperators);
      EXPECT_TRUE(facts.isTied[op] || walk.isLastOfGroup(op));
      group = std::min(group, place);
      numMoved += place != op;
      if (!facts.isArgument(op)) {
        EXPECT_LE(last, op);
        last = op;
        continue;
      }
      unsigned tensor = problem.operators[op].results.front();
      EXPECT_TRUE(facts.tensors[tensor].uses.empty() ||
                  isNextToReader(facts, walk, op))
          << seed << ", operator " << op;
    }
  }
  EXPECT_GT(numMoved, 200u);
}

/// Forms of parameters that stand in front do not multiply.
TEST(WalkTest, argumentsInFrontMultiplyNoLabels) {
  constexpr unsigned kLayers = 20;
  ProblemBuilder builder;
  builder.addAxis("x", 2, perByte(1));
  SignatureSet forms = {signature(">f"), signature(">0")};
  std::vector<unsigned> values, weights;
  for (unsigned i = 0; i <= kLayers; ++i)
    values.push_back(builder.addTensor("y" + std::to_string(i), {4}));
  for (unsigned i = 0; i < kLayers; ++i) {
    weights.push_back(builder.addTensor("w" + std::to_string(i), {4}));
    builder.addResident(weights.back(), forms);
  }
  builder.addInput(values.front(), forms);
  for (unsigned i = 0; i < kLayers; ++i)
    builder.addCompute(Pass::Forward, {values[i], weights[i]}, {values[i + 1]},
                       {signature("ff>f", 2), signature("00>0", 1)});
  Facts facts(builder.problem);
  ChangeTable table(builder.problem);
  PricedRelaxations priced(FactorGraph(facts, table), [] { return true; });
  LabelResult labels = searchLabels(facts, table, priced, {});
  EXPECT_TRUE(labels.isComplete);
  EXPECT_LT(labels.numLabels, 100 * kLayers);
}
