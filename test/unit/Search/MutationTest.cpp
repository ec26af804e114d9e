//===- MutationTest.cpp - inconsistent plans ------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Plans of the random problems are spoiled, one class of mistake at a time;
// `verifyPlan` has to reject each with a line that names the mistake.
//
//===----------------------------------------------------------------------===//

#include "RandomProblem.h"
#include "Trial.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <cmath>

using namespace tandem;
using namespace tandem::cost;
using namespace tandem::cost::test;

namespace {
/// A problem with its plan, which verifies.
struct Case {
  SearchProblem problem;
  Plan plan;
};

/// Spoils the plan (or the problem); false where it has nothing to spoil.
using Mutation = std::function<bool(Case &, Random &)>;
} // namespace

static void addCases(const std::vector<Trial> &trials,
                     search::Algorithm algorithm, std::vector<Case> &cases) {
  std::vector<search::SearchResult> results(trials.size());
  runParallel(trials.size(), [&](unsigned i) {
    results[i] = algorithm(trials[i].problem, {});
  });
  for (size_t i = 0; i < trials.size(); ++i)
    if (results[i].plan)
      cases.push_back({trials[i].problem, *results[i].plan});
}

/// Of both searches, each under its own accountings.
static const std::vector<Case> &getCases() {
  static const std::vector<Case> cases = [] {
    std::vector<Case> made;
    addCases(getTrials(), search::searchTandem, made);
    addCases(getHidupTrials(), search::searchHidup, made);
    return made;
  }();
  return cases;
}

/// Every case is spoiled; each rejection is one line with one of the words.
static void reject(const Mutation &mutation,
                   const std::vector<std::string> &words,
                   unsigned minCount = 300) {
  unsigned count = 0;
  Random random(1);
  for (const Case &original : getCases()) {
    Case spoiled = original;
    if (!mutation(spoiled, random))
      continue;
    ++count;
    std::string error;
    ASSERT_FALSE(search::verifyPlan(spoiled.problem, spoiled.plan, error))
        << print(spoiled.problem) << print(original.problem, original.plan)
        << print(spoiled.problem, spoiled.plan);
    EXPECT_EQ(error.find('\n'), error.npos) << error;
    EXPECT_TRUE(std::any_of(words.begin(), words.end(),
                            [&](const std::string &word) {
                              return error.find(word) != error.npos;
                            }))
        << error << "\nexpected '" << words.front() << "' in it";
  }
  EXPECT_GE(count, minCount);
}

/// Whether the decisions of the spoiled plan happen to give all that is written
/// in it, up to the order in which seconds are added.
static bool isSame(const Case &spoiled) {
  Plan derived = spoiled.plan;
  std::string error;
  if (!derive(spoiled.problem, derived, error) ||
      std::abs(derived.cost - spoiled.plan.cost) > 1e-12 * derived.cost)
    return false;
  derived.cost = spoiled.plan.cost;
  return derived == spoiled.plan;
}

TEST(Mutation, plansAsTheyAreVerify) {
  for (const Case &original : getCases()) {
    std::string error;
    EXPECT_TRUE(search::verifyPlan(original.problem, original.plan, error))
        << error;
  }
}

TEST(Mutation, signatureThatDoesNotExist) {
  reject(
      [](Case &spoiled, Random &random) {
        unsigned op = random.below(spoiled.problem.operators.size());
        spoiled.plan.signatures[op] = spoiled.problem.getSignatures(op).size();
        return true;
      },
      {"signature"});
}

TEST(Mutation, anotherSignature) {
  // What follows from it differs: a change, the cost or the peak.
  reject(
      [](Case &spoiled, Random &random) {
        unsigned op = random.below(spoiled.problem.operators.size());
        unsigned count = spoiled.problem.getSignatures(op).size();
        unsigned &index = spoiled.plan.signatures[op];
        index = (index + 1) % count;
        return count > 1 && !isSame(spoiled);
      },
      {"signature", "change", "cost", "peak", "wants", "kept", "waits"}, 100);
}

TEST(Mutation, missingChange) {
  reject(
      [](Case &spoiled, Random &random) {
        auto &changes = spoiled.plan.changes;
        if (changes.empty())
          return false;
        changes.erase(changes.begin() + random.below(changes.size()));
        return true;
      },
      {"lacks the change"});
}

TEST(Mutation, lateChange) {
  reject(
      [](Case &spoiled, Random &random) {
        auto &changes = spoiled.plan.changes;
        if (changes.empty())
          return false;
        ++changes[random.below(changes.size())].stage;
        return true;
      },
      {"lacks the change"});
}

TEST(Mutation, changeFromAnotherLayout) {
  reject(
      [](Case &spoiled, Random &random) {
        auto &changes = spoiled.plan.changes;
        if (changes.empty())
          return false;
        CopyChange &change = changes[random.below(changes.size())];
        change.from = change.copy.layout;
        return true;
      },
      {"lacks the change"});
}

TEST(Mutation, changeThatIsNotMade) {
  reject(
      [](Case &spoiled, Random &random) {
        auto &changes = spoiled.plan.changes;
        if (changes.empty())
          return false;
        CopyChange more = changes[random.below(changes.size())];
        more.copy.tensor =
            (more.copy.tensor + 1) % spoiled.problem.tensors.size();
        if (std::count(changes.begin(), changes.end(), more))
          return false;
        changes.push_back(more);
        return true;
      },
      {"expected none there"});
}

TEST(Mutation, repeatedChange) {
  reject(
      [](Case &spoiled, Random &random) {
        auto &changes = spoiled.plan.changes;
        if (changes.empty())
          return false;
        changes.push_back(changes[random.below(changes.size())]);
        return true;
      },
      {"repeated"});
}

TEST(Mutation, wrongOrderOfStages) {
  reject(
      [](Case &spoiled, Random &random) {
        auto &ends = spoiled.plan.stageEnds;
        if (ends.size() < 2)
          return false;
        unsigned i = random.below(ends.size() - 1);
        std::swap(ends[i], ends[i + 1]);
        return true;
      },
      {"stage"});
}

TEST(Mutation, movedCut) {
  reject(
      [](Case &spoiled, Random &random) {
        auto &ends = spoiled.plan.stageEnds;
        unsigned i = random.below(ends.size());
        if (i + 1 == ends.size() || ++ends[i] == ends[i + 1])
          ends.erase(ends.begin() + i);
        return !isSame(spoiled);
      },
      {"stage", "change", "cost", "peak", "cut", "made", "kept"}, 200);
}

TEST(Mutation, wrongCost) {
  for (double factor : {0.5, 0.999999, 1.000001, 2.0})
    reject(
        [&](Case &spoiled, Random &) {
          spoiled.plan.cost *= factor;
          return true;
        },
        {"the plan's cost is"});
}

TEST(Mutation, wrongPeak) {
  for (int64_t difference : {-1, 1})
    reject(
        [&](Case &spoiled, Random &) {
          spoiled.plan.peak += difference;
          return true;
        },
        {"the plan's peak is"});
}

TEST(Mutation, waitingBehindItsUpdate) {
  reject(
      [](Case &spoiled, Random &) {
        for (CopyChange &change : spoiled.plan.changes)
          if (change.waits) {
            ++change.stage;
            return true;
          }
        return false;
      },
      {"which waits, in stage"}, 50);
}

TEST(Mutation, waitingThatNobodyDecided) {
  reject(
      [](Case &spoiled, Random &) {
        if (spoiled.plan.waiting.empty())
          return false;
        spoiled.plan.waiting.pop_back();
        return true;
      },
      {"change", "cost", "peak"}, 50);
}

TEST(Mutation, waitingForAnotherPass) {
  reject(
      [](Case &spoiled, Random &random) {
        for (const CopyChange &change : spoiled.plan.changes)
          if (change.copy.pass != Pass::Update && random.chance(0.5)) {
            spoiled.plan.waiting = {change.copy};
            return true;
          }
        return false;
      },
      {"waits, expected a gradient", "accountings expect none"}, 100);
}

TEST(Mutation, keptWithoutALaterUse) {
  reject(
      [](Case &spoiled, Random &) {
        for (const CopyChange &change : spoiled.plan.changes)
          if (change.copy.pass == Pass::Update) {
            auto &kept = spoiled.plan.kept;
            kept.insert(std::lower_bound(kept.begin(), kept.end(), change.copy),
                        change.copy);
            return true;
          }
        return false;
      },
      {"kept"}, 100);
}

TEST(Mutation, wrongHash) {
  reject(
      [](Case &spoiled, Random &random) {
        std::string &hash = spoiled.plan.structureHash;
        char &digit = hash[random.below(hash.size())];
        digit = digit == '0' ? '1' : '0';
        return true;
      },
      {"the plan is for the problem"});
}

TEST(Mutation, anotherProblem) {
  reject(
      [](Case &spoiled, Random &random) {
        auto &tensors = spoiled.problem.tensors;
        tensors[random.below(tensors.size())].elementBytes *= 2;
        return true;
      },
      {"the plan is for the problem"});
}

TEST(Mutation, anotherAccounting) {
  reject(
      [](Case &spoiled, Random &) {
        Accounting &accounting = spoiled.plan.accounting;
        accounting = accounting == Accounting::HidupSerial
                         ? Accounting::HidupOverlapped
                         : Accounting::HidupSerial;
        return true;
      },
      {"accounting"});
}

TEST(Mutation, aboveTheLimit) {
  reject(
      [](Case &spoiled, Random &) {
        spoiled.problem.memoryLimit = spoiled.plan.peak - 1;
        return spoiled.problem.accounting == Accounting::Tandem;
      },
      {"expected at most"});
}

TEST(Mutation, claimsThatAreNotTrue) {
  reject(
      [](Case &spoiled, Random &) {
        spoiled.plan.lowerBound = spoiled.plan.cost * 1.01;
        return true;
      },
      {"lower bound"});
  reject(
      [](Case &spoiled, Random &) {
        spoiled.plan.lowerBound = spoiled.plan.cost * 0.99;
        return spoiled.plan.isOptimal;
      },
      {"says optimal"});
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

TEST(RoundTrip, problemsAndPlansPrintAsTheyWereParsed) {
  for (const Case &original : getCases()) {
    std::string text = print(original.problem), error;
    auto problem = parseSearchProblem(text, "p.txt", error);
    ASSERT_TRUE(problem) << error << "\n" << text;
    EXPECT_EQ(*problem, original.problem);
    EXPECT_EQ(print(*problem), text);
    EXPECT_EQ(getStructureHash(*problem), original.plan.structureHash);
    text = print(original.problem, original.plan);
    auto plan = parsePlan(*problem, text, "plan.txt", error);
    ASSERT_TRUE(plan) << error << "\n" << text;
    EXPECT_EQ(*plan, original.plan) << text;
    EXPECT_EQ(print(*problem, *plan), text);
    EXPECT_TRUE(search::verifyPlan(*problem, *plan, error)) << error;
  }
}

/// A search of the parsed text gives the same plan, to the byte, as one of the
/// problem itself; so does a second one.
TEST(RoundTrip, searchesRepeatThemselves) {
  const std::vector<Case> &cases = getCases();
  runParallel(cases.size(), [&](unsigned i) {
    const Case &original = cases[i];
    std::string error, expected = print(original.problem, original.plan);
    auto problem = parseSearchProblem(print(original.problem), "p.txt", error);
    auto again = search::searchTandem(*problem, {});
    EXPECT_EQ(print(*problem, *again.plan), expected);
  });
}
