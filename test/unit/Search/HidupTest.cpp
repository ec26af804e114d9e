//===- HidupTest.cpp - HiDup's accountings and search ---------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Hidup/HidupLabels.h"
#include "tandem/Search/Search.h"
#include <gtest/gtest.h>
#include <random>

using namespace tandem;
using namespace tandem::cost;
using search::hidup::Label;
using search::hidup::Time;

/// One axis on which a change of 64 bytes takes 2, 3, 5 and 7 s.
static SearchProblem makeProblem(Accounting accounting) {
  SearchProblem problem;
  problem.accounting = accounting;
  Axis axis;
  axis.name = "ranks";
  axis.size = 2;
  axis.rates = {{{1, 1.0 / 64}, {2, 1.0 / 64}, {4, 1.0 / 64}, {6, 1.0 / 64}}};
  problem.axes = {axis};
  return problem;
}

static Layout in(Form form) {
  Layout layout;
  layout[0] = form;
  return layout;
}

/// Adds an operator with one signature, and its result of 64 bytes, if any.
static unsigned add(SearchProblem &problem, std::vector<unsigned> operands,
                    std::vector<Form> operandForms,
                    std::optional<Form> resultForm, double seconds) {
  unsigned index = problem.operators.size();
  Operator op;
  op.name = "op" + std::to_string(index);
  op.signatureSet = problem.signatureSets.size();
  op.operands = std::move(operands);
  Signature signature;
  for (Form form : operandForms)
    signature.operands.push_back(in(form));
  signature.seconds = seconds;
  if (resultForm) {
    op.results = {static_cast<unsigned>(problem.tensors.size())};
    problem.tensors.push_back({"t" + std::to_string(index), {4, 4}, 4});
    signature.results.push_back(in(*resultForm));
  }
  problem.signatureSets.push_back({signature});
  problem.operators.push_back(op);
  return index;
}

/// f (1 s) makes a tensor as `from`, g (4 s) wants it as `to`.
static SearchProblem makePair(Accounting accounting, Form from, Form to) {
  SearchProblem problem = makeProblem(accounting);
  add(problem, {}, {}, from, 1);
  add(problem, {0}, {to}, std::nullopt, 4);
  return problem;
}

static Plan makePlan(const SearchProblem &problem,
                     std::vector<unsigned> stageEnds) {
  Plan plan;
  plan.signatures.assign(problem.operators.size(), 0);
  plan.stageEnds = std::move(stageEnds);
  return plan;
}

static std::optional<CostReport> costOf(const SearchProblem &problem,
                                        const Plan &plan, std::string &error) {
  ChangeTable table(problem);
  return cost::cost(problem, plan, table, error);
}

//===----------------------------------------------------------------------===//
// Costs, by hand
//===----------------------------------------------------------------------===//

TEST(HidupCost, EachChangeBothWays) {
  // Stage 0: D = f = b = 0, F = 1; it costs 1 + 2 = 3 under both accountings.
  // Stage 1: D = 1, F = 4. Serial: max(1, f) + max(4, f) + 2 (1 + b + 4);
  // overlapped: max(1, f) + max(4, f) + max(2, b) + max(8, b). Then F = 4.
  struct {
    Form from, to;
    double forward, backward, serial, overlapped;
  } rows[] = {{kFull, 0, 0, 0, 22, 22},     {0, kFull, 2, 3, 29, 24},
              {0, 1, 7, 7, 45, 36},         {kReduce, kFull, 5, 5, 37, 30},
              {kReduce, 0, 3, 2, 28, 24},   {kReplicate, kFull, 0, 5, 32, 25},
              {kReplicate, 1, 0, 5, 32, 25}};
  for (const auto &row : rows) {
    SCOPED_TRACE(getFormName(row.from) + " -> " + getFormName(row.to));
    std::string error;
    for (bool isSerial : {true, false}) {
      SearchProblem problem = makePair(isSerial ? Accounting::HidupSerial
                                                : Accounting::HidupOverlapped,
                                       row.from, row.to);
      auto change = getHidupChange(problem, 0, row.from, row.to);
      ASSERT_TRUE(change);
      EXPECT_DOUBLE_EQ(change->forward, row.forward);
      EXPECT_DOUBLE_EQ(change->backward, row.backward);
      auto report = costOf(problem, makePlan(problem, {1, 2}), error);
      ASSERT_TRUE(report) << error;
      EXPECT_DOUBLE_EQ(report->seconds, isSerial ? row.serial : row.overlapped);
      ASSERT_EQ(report->changes.size(), 1u);
      EXPECT_EQ(report->changes[0],
                (CopyChange{1, {0, in(row.to), Pass::Forward}, in(row.from)}));
      EXPECT_EQ(report->peak, 0);
      // It is the only plan.
      search::SearchResult result = search::searchHidup(problem, {});
      ASSERT_TRUE(result.plan) << result.error;
      EXPECT_DOUBLE_EQ(result.plan->cost, report->seconds);
      EXPECT_TRUE(search::verifyPlan(problem, *result.plan, error)) << error;
    }
  }
}

TEST(HidupCost, NoChangeNoStage) {
  std::string error;
  for (Accounting accounting :
       {Accounting::HidupSerial, Accounting::HidupOverlapped}) {
    SearchProblem problem = makePair(accounting, 0, 0);
    // F = 5: 5 forward, 10 backward, and the last F.
    auto report = costOf(problem, makePlan(problem, {2}), error);
    ASSERT_TRUE(report) << error;
    EXPECT_DOUBLE_EQ(report->seconds, 20);
    EXPECT_TRUE(report->changes.empty());
    EXPECT_EQ(search::searchHidup(problem, {}).plan->stageEnds,
              std::vector<unsigned>{2});
  }
}

TEST(HidupCost, NoOtherChanges) {
  SearchProblem problem = makeProblem(Accounting::HidupSerial);
  problem.tensors.push_back({"t", {4, 4}, 4});
  for (Form from : {kFull, kReduce, kReplicate, Form(0)})
    for (Form to : {kReduce, kReplicate})
      EXPECT_EQ(getHidupChange(problem, 0, from, to).has_value(), from == to);
}

/// Two readers share a copy; it is paid for once, where the first one stands.
TEST(HidupCost, OneCopyForAllReaders) {
  std::string error;
  SearchProblem problem = makeProblem(Accounting::HidupSerial);
  add(problem, {}, {}, kReduce, 1);
  add(problem, {0}, {kFull}, std::nullopt, 4);
  add(problem, {0}, {kFull}, std::nullopt, 4);
  auto report = costOf(problem, makePlan(problem, {1, 2, 3}), error);
  ASSERT_TRUE(report) << error;
  EXPECT_EQ(report->changes.size(), 1u);
  // 3, 5 + 5 + 2 (1 + 5 + 4) = 30, 4 + 4 + 2 (4 + 0 + 4) = 24, 4.
  EXPECT_DOUBLE_EQ(report->seconds, 61);
  // In one stage both: 3, 5 + 8 + 2 (1 + 5 + 8) = 41, 8.
  EXPECT_DOUBLE_EQ(search::searchHidup(problem, {}).plan->cost, 52);
}

//===----------------------------------------------------------------------===//
// What is not legal
//===----------------------------------------------------------------------===//

static void expectError(const SearchProblem &problem, const Plan &plan,
                        const std::string &part) {
  std::string error;
  EXPECT_FALSE(costOf(problem, plan, error));
  EXPECT_NE(error.find(part), std::string::npos) << error;
  EXPECT_EQ(error.find('\n'), std::string::npos) << error;
}

TEST(HidupCost, IllegalPlans) {
  SearchProblem problem = makePair(Accounting::HidupSerial, kReduce, kFull);
  expectError(
      problem, makePlan(problem, {2}),
      "op1 in stage 0 wants tensor t0 as full, which is made in stage 0 "
      "as reduce: expected a change in a later stage");
  expectError(problem, makePlan(problem, {}), "expected 2");
  expectError(problem, makePlan(problem, {1, 1, 2}),
              "a stage ends at operator 1");
  expectError(problem, makePlan(problem, {1, 3}), "expected 2");
  Plan plan = makePlan(problem, {1, 2});
  plan.signatures[1] = 1;
  expectError(problem, plan, "op1 takes signature 1, expected one below 1");
  plan.signatures.pop_back();
  expectError(problem, plan, "1 signatures");
  plan = makePlan(problem, {1, 2});
  plan.kept.push_back({0, in(kFull), Pass::Forward});
  expectError(problem, plan, "kept or waiting");
  problem = makePair(Accounting::HidupSerial, 0, kReduce);
  expectError(problem, makePlan(problem, {1, 2}), "no such change");
}

TEST(HidupCost, SecondCopy) {
  SearchProblem problem = makePair(Accounting::HidupSerial, kReduce, kFull);
  add(problem, {0}, {0}, std::nullopt, 1);
  expectError(problem, makePlan(problem, {1, 2, 3}),
              "has a copy as full: expected at most one copy");
  search::SearchResult result = search::searchHidup(problem, {});
  EXPECT_TRUE(result.isInfeasible);
  EXPECT_NE(result.error.find("there is no plan"), std::string::npos);
  EXPECT_NE(result.error.find("op1"), std::string::npos) << result.error;
}

TEST(HidupCost, OtherProblems) {
  SearchProblem problem = makePair(Accounting::HidupSerial, kReduce, kFull);
  Plan plan = makePlan(problem, {1, 2});
  SearchProblem changed = problem;
  changed.operators[1].pass = Pass::Backward;
  expectError(changed, plan, "op1 is not in the forward pass");
  changed = problem;
  changed.ties.emplace_back(0, 1);
  expectError(changed, plan, "ties");
  changed = problem;
  changed.axes.push_back(changed.axes[0]);
  expectError(changed, plan, "2 axes");
  changed.axes = {problem.axes[0]};
  changed.axes[0].isTime = true;
  expectError(changed, plan, "one space axis");
  EXPECT_FALSE(search::searchHidup(changed, {}).plan);
  changed = problem;
  changed.accounting = Accounting::Tandem;
  EXPECT_NE(search::searchHidup(changed, {}).error.find("hidup-serial"),
            std::string::npos);
}

//===----------------------------------------------------------------------===//
// Search
//===----------------------------------------------------------------------===//

/// A parameter stored as gather(0) costs an all-gather forward (2 s) and a
/// reduce-scatter backward (3 s), one stored whole an all-reduce backward
/// (5 s): the first is better while its all-gather is hidden.
TEST(HidupSearch, ParameterStoredAsItPays) {
  for (double seconds : {4.0, 0.5}) {
    SearchProblem problem = makeProblem(Accounting::HidupSerial);
    add(problem, {}, {}, 0, seconds);
    add(problem, {}, {}, kReplicate, 0);
    Signature split;
    split.results = {in(0)};
    problem.signatureSets[1].push_back(split);
    problem.axes[0].rates[0].latency = 4;
    add(problem, {0, 1}, {0, kFull}, std::nullopt, seconds);
    search::SearchResult result = search::searchHidup(problem, {});
    ASSERT_TRUE(result.plan) << result.error;
    // seconds = 4: 12, then 5 + 5 + 2 (4 + 3 + 4) = 32 or 4 + 4 + 2 (4 + 5 + 4)
    // = 34, 4. seconds = 0.5: 1.5, then 5 + 5 + 2 (0.5 + 3 + 0.5) = 18 or
    // 1 + 2 (0.5 + 5 + 0.5) = 13, 0.5.
    EXPECT_EQ(result.plan->signatures[1], seconds > 1 ? 1u : 0u);
    EXPECT_DOUBLE_EQ(result.plan->cost, seconds > 1 ? 48 : 15);
    EXPECT_TRUE(result.plan->isOptimal);
  }
}

/// Of plans that cost the same the one whose parameters hold less, in whatever
/// order the signatures stand: the all-gather is hidden, and a reduce-scatter
/// takes as long as an all-reduce.
TEST(HidupSearch, EqualCostLessMemory) {
  for (bool isSplitFirst : {false, true}) {
    for (double argumentSeconds : {0.0, 1.0}) {
      SearchProblem problem = makeProblem(Accounting::HidupSerial);
      problem.axes[0].rates[1] = problem.axes[0].rates[2];
      add(problem, {}, {}, 0, 4);
      add(problem, {}, {}, isSplitFirst ? Form(0) : kReplicate,
          argumentSeconds);
      problem.operators[1].kind = Operator::Kind::Resident;
      problem.signatureSets[1].push_back(problem.signatureSets[1][0]);
      problem.signatureSets[1][1].results[0] =
          in(isSplitFirst ? kReplicate : Form(0));
      add(problem, {0, 1}, {0, kFull}, std::nullopt, 4);
      search::SearchResult result = search::searchHidup(problem, {});
      ASSERT_TRUE(result.plan) << result.error;
      EXPECT_EQ(result.plan->signatures[1], isSplitFirst ? 0u : 1u);
      // The other one costs as much.
      std::string error;
      Plan other = *result.plan;
      other.signatures[1] ^= 1;
      auto report = costOf(problem, other, error);
      ASSERT_TRUE(report) << error;
      EXPECT_EQ(report->seconds, result.plan->cost);
    }
  }
}

/// An interrupted search returns a legal plan and a bound that holds.
TEST(HidupSearch, InterruptedIsLegal) {
  SearchProblem problem = makeProblem(Accounting::HidupOverlapped);
  add(problem, {}, {}, 0, 1);
  for (unsigned i = 0; i < 40; ++i) {
    unsigned op = add(problem, {i}, {kFull}, kReduce, 1);
    for (Form from : {kFull, Form(0), Form(1)})
      for (Form to : {kReduce, Form(0), Form(1)}) {
        Signature other = problem.signatureSets[op][0];
        other.operands[0] = in(from);
        other.results[0] = in(to);
        other.seconds = 0.25 * (1 + (i * 7 + from * 3 + to + 9) % 5);
        problem.signatureSets[op].push_back(other);
      }
  }
  search::SearchResult best = search::searchHidup(problem, {});
  ASSERT_TRUE(best.plan) << best.error;
  EXPECT_EQ(best.plan->lowerBound, best.plan->cost);
  search::SearchOptions options;
  unsigned numCalls = 0;
  options.progress = [&](double done, double, double bound) {
    EXPECT_LE(bound, best.plan->cost * (1 + 1e-12));
    return ++numCalls < 10 && done < 1;
  };
  search::SearchResult found = search::searchHidup(problem, options);
  ASSERT_TRUE(found.plan) << found.error;
  std::string error;
  EXPECT_TRUE(search::verifyPlan(problem, *found.plan, error)) << error;
  EXPECT_GE(found.plan->cost, best.plan->cost);
  EXPECT_LE(found.plan->lowerBound, best.plan->cost);
  // A better plan to start from is not lost.
  options.starts = {*best.plan};
  numCalls = 0;
  EXPECT_EQ(search::searchHidup(problem, options).plan->cost, best.plan->cost);
}

/// Forms of tensors that live to the end have 2^40 combinations, of which only
/// those whose labels are kept are followed: else this ends nowhere.
TEST(HidupSearch, ManyLiveTensors) {
  SearchProblem problem = makeProblem(Accounting::HidupOverlapped);
  std::vector<unsigned> operands;
  for (unsigned i = 0; i < 40; ++i) {
    operands.push_back(i);
    unsigned op = add(problem, {}, {}, kFull, 2);
    problem.signatureSets[op].push_back(problem.signatureSets[op][0]);
    problem.signatureSets[op][1].results[0] = in(0);
    problem.signatureSets[op][1].seconds = 1;
  }
  std::vector<Form> whole(operands.size(), kFull);
  add(problem, std::move(operands), std::move(whole), std::nullopt, 1);
  search::SearchOptions options;
  options.gap = 1e9; // one walk
  search::SearchResult result = search::searchHidup(problem, options);
  ASSERT_TRUE(result.plan) << result.error;
  std::string error;
  EXPECT_TRUE(search::verifyPlan(problem, *result.plan, error)) << error;
}

//===----------------------------------------------------------------------===//
// Dominance
//===----------------------------------------------------------------------===//

namespace {
/// What is added to an open stage before it ends.
struct Addition {
  Time computation, forward, backward;
};
} // namespace

/// The cost of a plan that goes on from `label`.
static Time complete(Accounting accounting, Label label,
                     const std::vector<Addition> &stages) {
  for (size_t i = 0; i < stages.size(); ++i) {
    if (i > 0) {
      label.closed += getHidupTime(accounting, label.open);
      label.open = {label.open.computation};
    }
    label.open.computation += stages[i].computation;
    label.open.forward += stages[i].forward;
    label.open.backward += stages[i].backward;
  }
  return search::hidup::getValue(accounting, label);
}

/// A label that dominates is never overtaken, whatever comes.
TEST(HidupDominance, HoldsForAllCompletions) {
  std::mt19937 random(1);
  auto draw = [&](int limit) { return Time(random() % limit); };
  auto drawLabel = [&] {
    Label label;
    label.closed = draw(40);
    label.open = {draw(9), draw(9), draw(9), draw(9)};
    label.numStages = draw(2);
    return label;
  };
  unsigned numDominated = 0;
  for (unsigned trial = 0; trial < 200000; ++trial) {
    Accounting accounting =
        draw(2) ? Accounting::HidupSerial : Accounting::HidupOverlapped;
    Label a = drawLabel(), b = drawLabel();
    if (!dominates(accounting, a, b))
      continue;
    ++numDominated;
    std::vector<Addition> stages(1 + draw(3));
    for (Addition &addition : stages)
      addition = {draw(2) * draw(20), draw(2) * draw(20), draw(2) * draw(20)};
    ASSERT_LE(complete(accounting, a, stages), complete(accounting, b, stages));
  }
  EXPECT_GT(numDominated, 20000u);
}

/// HiDup's dominance (section 4.2) compares psi and phi = -F, more computation
/// in the last stage being better. With the backward pass serial, more of it
/// costs more than it can hide: the same psi with F = 3 instead of F = 1 is
/// better under the paper's relation, and worse in fact.
TEST(HidupDominance, NotThePapers) {
  Accounting accounting = Accounting::HidupSerial;
  Label less, more;
  less.closed = 20;
  less.open = {0, 1, 0, 0};
  more.closed = 12;
  more.open = {0, 3, 0, 0};
  Time psiLess = search::hidup::getValue(accounting, less);
  Time psiMore = search::hidup::getValue(accounting, more);
  EXPECT_EQ(psiLess, psiMore);
  std::vector<Addition> rest = {{0, 0, 0}, {1, 1, 0}};
  EXPECT_LT(complete(accounting, less, rest), complete(accounting, more, rest));
  EXPECT_FALSE(dominates(accounting, more, less));
}
