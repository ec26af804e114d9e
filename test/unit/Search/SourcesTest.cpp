//===- SourcesTest.cpp - choices of what is made again --------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Problem/Sources.h"
#include "ChainMaker.h"
#include <gtest/gtest.h>

using namespace tandem::cost;
using namespace tandem::cost::test;
using namespace tandem::search;

static SourceChoice choose(const Sources &sources, Random &random) {
  SourceChoice choice;
  for (const SourceValue &value : sources.getValues()) {
    uint64_t source = random.below(value.makers.size());
    choice.push_back(value.makers[source].empty() ? 0 : source);
  }
  return choice;
}

/// What a change of the choice changes is what writing all would.
TEST(SourcesTest, ChangesAreThoseOfAllSignatures) {
  unsigned numChanged = 0, numClones = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    SearchProblem problem = ChainMaker(seed).run();
    Facts facts(problem);
    ChangeTable table(problem);
    Sources quick(facts, table), slow(facts, table);
    if (!quick.hasChoices())
      continue;
    std::vector<unsigned> base;
    for (unsigned op = 0; op < problem.operators.size(); ++op)
      base.push_back(random.below(problem.getSignatures(op).size()));
    SourceChoice from = quick.read(base);
    quick.write(from, base);
    for (unsigned i = 0; i < 20; ++i) {
      quick.setBase(base);
      slow.setBase(base);
      SourceChoice to = choose(quick, random);
      std::vector<unsigned> all = base, changed = base;
      slow.write(to, all);
      for (auto [op, signature] : quick.change(from, to, base)) {
        EXPECT_NE(changed[op], signature);
        changed[op] = signature;
        ++numChanged;
        numClones += quick.isOptional(op);
      }
      EXPECT_EQ(changed, all) << "seed " << seed;
      if (random.chance(0.5))
        continue;
      base = all;
      from = to;
    }
  }
  EXPECT_GT(numChanged, 2000u);
  EXPECT_GT(numClones, 500u);
}
