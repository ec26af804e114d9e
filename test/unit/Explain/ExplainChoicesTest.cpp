//===- ExplainChoicesTest.cpp - the next best forms, and why --------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExplainFixture.h"
#include "ExplainForms.h"
#include "RandomPlan.h"
#include "tandem/Search/Exhaustive.h"
#include <map>
#include <numeric>

using namespace tandem::cost;
using namespace tandem::cost::test;
using namespace tandem::explain;
using namespace tandem::explain::test;
using namespace tandem::search;

namespace {
struct NextTest : ChoiceTest {
  /// Asked with a search, and without.
  void expectNext(double added, double computes, double exposes, bool fits) {
    for (unsigned maxSearched : {100u, 0u}) {
      Explanation e = ask(plan({2, 3}), {10, maxSearched});
      for (const FormEntry &entry : e.forms) {
        if (entry.name != "layers.0.y")
          continue;
        EXPECT_EQ(entry.form, "full");
        EXPECT_EQ(entry.numForms, 2u);
        ASSERT_EQ(entry.choices.size(), 1u);
        const Choice &choice = entry.choices[0];
        EXPECT_EQ(choice.form, "data=gather(0)");
        EXPECT_EQ(choice.isSearched, maxSearched > 0);
        EXPECT_EQ(choice.fits, fits);
        EXPECT_NEAR(choice.seconds - e.time.seconds, added, kTolerance);
        EXPECT_NEAR(choice.computation - e.time.getComputation(), computes,
                    kTolerance);
        EXPECT_NEAR(choice.exposed - e.time.exposed, exposes, kTolerance);
        why = entry.why;
      }
    }
  }
  std::string why;
};
} // namespace

TEST_F(NextTest, theNextBestFormIsCosted) {
  // 1 s less of computation, 2 s more for an all-gather.
  expectNext(1, -1, 2, true);
  EXPECT_EQ(why, "less exposed all-gather data");
}

TEST_F(NextTest, aFasterFormMayNotFit) {
  b.problem.axes[0].rates = perByte(1.0 / 256);
  // The gather takes half a second. Whole, x, y and the result are 384 B;
  // split, x, y, its copy and the result, 128 + 64 + 128 + 128 B.
  b.problem.memoryLimit = 384;
  expectNext(-0.5, -1, 0.5, false);
  EXPECT_EQ(why, "data=gather(0) is faster, but exceeds the memory limit");
}

TEST_F(NextTest, aFasterFormIsNotHidden) {
  b.problem.axes[0].rates = perByte(1.0 / 256);
  expectNext(-0.5, -1, 0.5, true);
  EXPECT_NE(why.find("the plan is no optimum"), why.npos);
}

/// The least seconds of all plans, per tensor and layout.
using Best = std::map<std::pair<unsigned, std::string>, double>;

static Best enumerate(const SearchProblem &problem) {
  Best best;
  std::string error;
  uint64_t numVisited = 0;
  auto visit = [&](const Plan &plan, const CostReport &report) {
    for (unsigned op = 0; op < problem.operators.size(); ++op) {
      const Signature &signature =
          problem.getSignatures(op)[plan.signatures[op]];
      for (size_t i = 0; i < signature.results.size(); ++i) {
        auto key = std::make_pair(problem.operators[op].results[i],
                                  print(problem, signature.results[i]));
        auto [it, isNew] = best.try_emplace(key, report.seconds);
        it->second = std::min(it->second, report.seconds);
      }
    }
    return true;
  };
  EXPECT_TRUE(enumeratePlans(problem, 2 * kMaxExhaustivePlans, visit,
                             numVisited, error))
      << error;
  return best;
}

TEST(ExplainChoices, areTheNextBestOfAllPlans) {
  double excess = 0;
  unsigned numFirst = 0, numSecond = 0, numEstimated = 0, numBest = 0;
  for (uint64_t seed = 0; seed < 48; ++seed) {
    SearchProblem problem = makeRandomProblem(seed, {.maxPlans = 4'000});
    SearchResult found = searchExhaustive(problem, SearchOptions());
    ASSERT_TRUE(found.plan) << found.error;
    Best best = enumerate(problem);
    std::string error;
    std::optional<Explanation> e =
        explain(problem, *found.plan, {100, 1000}, error);
    std::optional<Explanation> estimate =
        explain(problem, *found.plan, {100, 0}, error);
    ASSERT_TRUE(e && estimate) << error;
    for (size_t i = 0; i < e->forms.size(); ++i) {
      const FormEntry &entry = e->forms[i];
      if (entry.tensors.size() != 1 || entry.choices.empty())
        continue;
      std::vector<double> others;
      for (const auto &[key, seconds] : best)
        if (key.first == entry.tensors[0] && key.second != entry.form)
          others.push_back(seconds);
      std::sort(others.begin(), others.end());
      ASSERT_GE(others.size(), entry.choices.size()) << seed;
      EXPECT_NEAR(entry.choices[0].seconds, others[0], 1e-9 * others[0])
          << seed << " " << entry.name;
      ++numFirst;
      if (entry.choices.size() > 1) {
        EXPECT_NEAR(entry.choices[1].seconds, others[1], 1e-9 * others[1])
            << seed << " " << entry.name;
        ++numSecond;
      }
      if (estimate->forms[i].choices.empty())
        continue;
      // An estimate is a plan, so that it costs at least the best one.
      double estimated = estimate->forms[i].choices[0].seconds;
      EXPECT_GE(estimated, others[0] * (1 - 1e-9)) << seed;
      ++numEstimated;
      numBest += estimated <= others[0] * (1 + 1e-9);
      excess += estimated / others[0] - 1;
    }
  }
  EXPECT_GE(numFirst, 60u);
  EXPECT_GE(numSecond, 15u);
  // Not by definition, but estimates that are never right would be useless.
  EXPECT_GE(3 * numBest, numEstimated);
  printf("%u next best forms, %u second ones; %u of %u estimates are the "
         "optimum, on average %.1f %% above it\n",
         numFirst, numSecond, numBest, numEstimated,
         100 * excess / numEstimated);
}

/// What holds of every plan, good or bad, searched or estimated.
static void expectInOrder(const Explanation &e, uint64_t seed) {
  double tolerance = 1e-9 * e.time.seconds;
  for (const FormEntry &entry : e.forms) {
    EXPECT_NE(entry.why, "") << seed << " " << entry.name;
    for (size_t i = 1; i < entry.choices.size(); ++i) {
      const Choice &first = entry.choices[0], &second = entry.choices[i];
      EXPECT_TRUE(first.fits > second.fits ||
                  (first.fits == second.fits &&
                   first.seconds <= second.seconds + tolerance))
          << seed << " " << entry.name;
      EXPECT_NE(first.form, second.form) << seed << " " << entry.name;
    }
    bool isCheaper = false;
    for (const Choice &choice : entry.choices)
      isCheaper |=
          choice.fits && choice.seconds < e.time.seconds - 2 * tolerance;
    EXPECT_TRUE(!isCheaper || entry.why.find("no reason, ") == 0)
        << seed << " " << entry.name << ": " << entry.why;
  }
}

TEST_F(NextTest, withoutTimeItIsEstimated) {
  Explanation e = ask(plan({2, 3}), {10, 100, 1e-9});
  Explanation estimate = ask(plan({2, 3}), {10, 0});
  EXPECT_EQ(printText(e), printText(estimate));
  EXPECT_NE(printText(e).find("by a local estimate"), std::string::npos);
  Explanation ended = ask(plan({2, 3}), {10, 100, 0, [] { return true; }});
  EXPECT_EQ(printText(ended), printText(estimate));
  EXPECT_EQ(printText(ask(plan({2, 3}), {10, 100, 1e9})),
            printText(ask(plan({2, 3}), {10, 100})));
}

namespace {
/// `x` and what some hundred operators make of it, one after the other, each a
/// tensor with a name of its own.
struct LongTest : ExplainTest {
  LongTest() {
    unsigned x = input("x", ">f");
    for (char a = 'a'; a <= 'z'; ++a)
      for (char c = 'a'; c <= 'z'; ++c) {
        unsigned y = tensor(std::string({a, c}).c_str());
        b.addCompute(
            kForward, {x}, {y},
            {signature("f>f", 2), signature("0>0", 1), signature("1>1", 1)});
        x = y;
      }
  }
  Plan longPlan() const {
    std::vector<unsigned> ends(b.problem.operators.size() - 1);
    std::iota(ends.begin(), ends.end(), 2);
    return plan(ends);
  }
};
} // namespace

/// What is left when an explanation has to end is estimated as long as a fixed
/// amount of work lasts, and then not looked at; nobody is asked again.
TEST_F(LongTest, endsSoonAndSaysSo) {
  unsigned calls = 0;
  Explanation e = ask(longPlan(), {10, 0, 0, [&] { return ++calls == 20; }});
  EXPECT_EQ(calls, 20u);
  size_t numEstimated = 0, numLeft = 0;
  for (const FormEntry &entry : e.forms) {
    numEstimated += !entry.choices.empty();
    numLeft += entry.why == "not looked at: the searches had to end before";
    for (const Choice &choice : entry.choices)
      EXPECT_FALSE(choice.isSearched);
  }
  EXPECT_GT(numEstimated, 20u);
  EXPECT_GT(numLeft, 20u);
  // `x` has no other form.
  EXPECT_EQ(numEstimated + numLeft + 1, e.forms.size());
}

TEST(ExplainChoices, ofBadPlansAreInOrderAndSaySo) {
  unsigned numBad = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SearchProblem problem = makeRandomProblem(seed, {.maxPlans = 4'000});
    ChangeTable table(problem);
    Random random(seed);
    std::optional<Plan> plan = makeRandomPlan(problem, table, random);
    if (!plan)
      continue;
    for (unsigned maxSearched : {0u, seed % 4 ? 0u : 1000u}) {
      std::string error;
      std::optional<Explanation> e =
          explain(problem, *plan, {100, maxSearched}, error);
      ASSERT_TRUE(e) << error;
      expectInOrder(*e, seed);
      for (const FormEntry &entry : e->forms)
        numBad += entry.why.find("the plan is no optimum") != entry.why.npos;
    }
  }
  EXPECT_GE(numBad, 20u);
}

/// Plans of the fixture's two forms of y, costed as it is said.
struct MetPlansTest : ChoiceTest {
  std::vector<Choice> pick(std::vector<Choice> met, bool isAsked) {
    Plan plan = this->plan({2, 3});
    std::string error;
    auto facts = PlanFacts::make(b.problem, plan, error);
    std::vector<FormEntry> entries = getForms(*facts);
    auto isY = [](const FormEntry &e) { return e.name == "layers.0.y"; };
    auto y = std::find_if(entries.begin(), entries.end(), isY);
    auto x = std::find_if_not(entries.begin(), entries.end(), isY);
    MetPlans plans(*facts);
    for (const Choice &choice : met)
      plans.add({0, choice.form == "full" ? 0u : 1u, 0}, choice,
                isAsked ? *y : *x);
    return plans.pick(*y);
  }
  static Choice met(const char *form, double seconds, bool fits = true) {
    Choice choice;
    choice.form = form;
    choice.seconds = seconds;
    choice.fits = fits;
    return choice;
  }
};

TEST_F(MetPlansTest, theCheapestOfAllIsTaken) {
  for (bool isAsked : {true, false}) {
    auto choices = pick(
        {met("split", 9), met("split", 5), met("full", 1), met("split", 7)},
        isAsked);
    ASSERT_EQ(choices.size(), 1u);
    EXPECT_EQ(choices[0].form, "data=gather(0)");
    EXPECT_EQ(choices[0].seconds, 5);
  }
}

TEST_F(MetPlansTest, whatFitsIsFirst) {
  auto choices = pick({met("split", 2, false), met("split", 50)}, true);
  ASSERT_EQ(choices.size(), 1u);
  EXPECT_EQ(choices[0].seconds, 50);
  EXPECT_TRUE(pick({met("split", 0)}, true).empty());
}
