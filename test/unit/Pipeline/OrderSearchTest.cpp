//===- OrderSearchTest.cpp - orders against known optima ------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Search/Pipeline/OrderSearch.h"
#include "tandem/Orders/Simulate.h"
#include "tandem/Orders/VerifyOrder.h"
#include <algorithm>
#include <chrono>
#include <gtest/gtest.h>
#include <random>

using namespace tandem;
using namespace tandem::pipeline;
using namespace tandem::orders;

namespace {
/// Equal sections; all numbers are those of a whole point.
struct Equal {
  unsigned numPoints = 4, perPoint = 1, numMicrobatches = 8;
  double forward = 1, input = 1, weight = 1, limit = 1e9, comm = 0, sum = 0;
  bool isVee = false;
};
} // namespace

static ScheduleProblem makeProblem(const Equal &equal) {
  ScheduleProblem problem;
  unsigned p = equal.numPoints;
  problem.numMicrobatches = equal.numMicrobatches;
  problem.limits.assign(p, equal.limit);
  problem.partition.numPoints = p;
  for (unsigned i = 0; i < p * equal.perPoint; ++i) {
    Section section;
    section.point = equal.isVee && i >= p ? 2 * p - 1 - i : i % p;
    section.forward = equal.forward / equal.perPoint;
    section.input = equal.input / equal.perPoint;
    section.weight = equal.weight / equal.perPoint;
    section.activations = 1.0 / equal.perPoint;
    section.sum = equal.sum / equal.perPoint;
    problem.partition.sections.push_back(section);
    if (i > 0)
      problem.partition.edges.push_back({i - 1, i, equal.comm});
  }
  return problem;
}

static OrderSearchResult search(const ScheduleProblem &problem) {
  OrderSearchResult result = searchOrder(problem, {});
  EXPECT_TRUE(result.order) << result.error;
  EXPECT_LE(result.lowerBound, result.cost);
  return result;
}

TEST(OrderSearch, Optima) {
  struct Case {
    unsigned perPoint;
    double limit, optimum;
  };
  // By CP-SAT; the limit of the last but one is half of what 1f1b holds.
  for (Case known : {Case{1, 4, 27}, Case{1, 3, 31}, Case{1, 2, 41},
                     Case{2, 4, 25.5}, Case{2, 2, 29.5}, Case{2, 3, 26.5}}) {
    Equal equal;
    equal.perPoint = known.perPoint;
    equal.isVee = known.perPoint == 2;
    equal.limit = known.limit;
    EXPECT_EQ(search(makeProblem(equal)).makespan, known.optimum)
        << known.perPoint << " of " << known.limit;
  }
}

TEST(OrderSearch, WholeBackward) {
  Equal equal{.limit = 4};
  ScheduleProblem problem = makeProblem(equal);
  for (Section &section : problem.partition.sections)
    section.isSplit = false;
  EXPECT_EQ(search(problem).makespan, 33);
}

TEST(OrderSearch, HalfFreedByInput) {
  Equal equal{.forward = 10, .input = 10, .weight = 5, .limit = 4};
  ScheduleProblem problem = makeProblem(equal);
  problem.objective = OrderObjective::Span;
  for (Section &section : problem.partition.sections)
    section.kept = 0.5;
  EXPECT_EQ(search(problem).longestSpan, 245);
}

/// The best named order has 28.25 and 29.25 with four sections.
TEST(OrderSearch, GradientSums) {
  for (auto [sum, best] :
       {std::pair(4.0, 27.25), {8.0, 28.25}, {12.0, 29.25}}) {
    OrderSearchResult result = search(makeProblem({.perPoint = 4, .sum = sum}));
    EXPECT_LT(result.makespan, best);
    EXPECT_NEAR(result.makespan, result.lowerBound, 1e-6);
  }
}

/// Table 9 of Zero Bubble, 28.3B with 256 microbatches: its schedule for p
/// activations has a bubble of 5.94 %.
TEST(OrderSearch, ZeroBubble) {
  ScheduleProblem problem = makeProblem({.numPoints = 32,
                                         .numMicrobatches = 256,
                                         .forward = 10.402,
                                         .input = 10.248,
                                         .weight = 7.698,
                                         .limit = 32,
                                         .comm = 0.46});
  problem.objective = OrderObjective::Span;
  OrderSearchResult result = search(problem);
  double busy = 256 * (10.402 + 10.248 + 7.698);
  EXPECT_LE(1 - busy / result.longestSpan, 0.05945);
}

static double getBubble(const Equal &equal, const ScheduleProblem &problem) {
  double busy =
      equal.numMicrobatches * (equal.forward + equal.input + equal.weight);
  return 1 - busy / search(problem).longestSpan;
}

/// The same table, 28.3B with 96 microbatches: W needs 32 sbh of the
/// sb (34 h + 5 as) that the backward pass does. Its schedule for 2p
/// activations has 0.38 %, and its hand-made one 6.41 %.
TEST(OrderSearch, ZeroBubbleOfTwice) {
  Equal equal{.numPoints = 32,
              .numMicrobatches = 96,
              .forward = 10.419,
              .input = 10.207,
              .weight = 7.715,
              .limit = 64,
              .comm = 0.408};
  ScheduleProblem problem = makeProblem(equal);
  problem.objective = OrderObjective::Span;
  for (Section &section : problem.partition.sections)
    section.kept = 32.0 * 6144 / (34 * 6144 + 5 * 48 * 1024);
  EXPECT_LE(getBubble(equal, problem), 0.00385);
}

/// A V in half of the memory of 1F1B, whose bubble is 25.52 % (14.6B with 48
/// microbatches).
TEST(OrderSearch, VeeInHalf) {
  Equal equal{.numPoints = 16,
              .perPoint = 2,
              .numMicrobatches = 48,
              .forward = 11.347,
              .input = 11.248,
              .weight = 8.132,
              .limit = 8,
              .comm = 0.377,
              .isVee = true};
  ScheduleProblem problem = makeProblem(equal);
  problem.objective = OrderObjective::Span;
  EXPECT_LT(getBubble(equal, problem), 0.2552);
}

/// All rows of F, I and W of one point that fit, each section in the order of
/// microbatches.
static void addRows(const ScheduleProblem &problem, unsigned point, double held,
                    std::vector<std::array<unsigned, 3>> done,
                    std::vector<Action> &row,
                    std::vector<std::vector<Action>> &rows) {
  ActionKind kinds[] = {ActionKind::Forward, ActionKind::BackwardInput,
                        ActionKind::BackwardWeight};
  bool isDone = true;
  for (unsigned section = 0; section < done.size(); ++section) {
    const Section &own = problem.partition.sections[section];
    for (unsigned i = 0; i < 3 && own.point == point; ++i) {
      isDone &= done[section][i] == problem.numMicrobatches;
      HeldChange change = getHeldChange(own, kinds[i]);
      if (done[section][i] ==
              (i == 0 ? problem.numMicrobatches : done[section][i - 1]) ||
          held + change.begin > problem.limits[point])
        continue;
      row.push_back({section, kinds[i], done[section][i]});
      auto next = done;
      ++next[section][i];
      addRows(problem, point, held + change.begin + change.end, next, row,
              rows);
      row.pop_back();
    }
  }
  if (isDone)
    rows.push_back(row);
}

/// The least cost of all orders, each tried; negative if none fits.
static double findOptimum(const ScheduleProblem &problem) {
  std::vector<std::vector<std::vector<Action>>> rows(2);
  for (unsigned point = 0; point < 2; ++point) {
    std::vector<Action> row;
    std::vector<std::array<unsigned, 3>> none(
        problem.partition.sections.size());
    addRows(problem, point, 0, none, row, rows[point]);
  }
  double best = -1;
  std::string error;
  for (const auto &first : rows[0])
    for (const auto &second : rows[1]) {
      Order order{{first, second}};
      auto measured = measureOrder(problem, order, "", error);
      if (measured && (best < 0 || measured->cost < best))
        best = measured->cost;
    }
  return best;
}

TEST(OrderSearch, BruteForce) {
  std::mt19937 random(46);
  for (unsigned trial = 0; trial < 24; ++trial) {
    Equal equal{.numPoints = 2, .numMicrobatches = 2 + trial % 2};
    equal.limit = 1 + random() % 3;
    equal.comm = random() % 3;
    ScheduleProblem problem = makeProblem(equal);
    for (Section &section : problem.partition.sections) {
      section.forward = 1 + random() % 4;
      section.input = 1 + random() % 4;
      section.weight = random() % 4;
      section.sum = random() % 3 ? 0 : random() % 6;
      if (random() % 2)
        section.kept = 0.5 * (random() % 4);
    }
    if (trial % 3 == 0)
      problem.objective = OrderObjective::Span;
    double optimum = findOptimum(problem);
    OrderSearchResult result = searchOrder(problem, {.effort = 400'000});
    ASSERT_EQ(result.order.has_value(), optimum >= 0)
        << print(problem) << result.error;
    if (optimum < 0)
      continue;
    EXPECT_NEAR(result.cost, optimum, 1e-9) << print(problem);
    EXPECT_LE(result.lowerBound, optimum + 1e-9) << print(problem);
  }
}

/// Two heads on point 1, which has room for little more than a microbatch of
/// one of them: from F to W it stays whole, wherever it goes.
TEST(OrderSearch, Heads) {
  std::mt19937 random(4);
  for (unsigned trial = 0; trial < 12; ++trial) {
    ScheduleProblem problem = makeProblem(
        {.numPoints = 2, .numMicrobatches = 2, .comm = double(random() % 4)});
    problem.partition.sections.push_back(problem.partition.sections[1]);
    problem.partition.edges.push_back(problem.partition.edges[0]);
    problem.partition.edges[1].to = 2;
    for (Section &section : problem.partition.sections) {
      section.forward = 1 + random() % 5;
      section.input = 1 + random() % 5;
      section.weight = random() % 6;
      section.activations = 1 + random() % 3;
      double &limit = problem.limits[section.point];
      limit = std::max(limit > 1e8 ? 0 : limit, section.activations);
    }
    problem.limits[1] += 0.5 * (random() % 2);
    EXPECT_NEAR(search(problem).cost, findOptimum(problem), 1e-9)
        << print(problem);
  }
}

TEST(OrderSearch, Text) {
  ScheduleProblem problem = makeProblem({.limit = 3, .comm = 0.5, .sum = 2});
  problem.limits[2] = 5;
  problem.partition.sections[0].kept = 0.25;
  problem.objective = OrderObjective::Span;
  std::string text = print(problem), error;
  auto read = parseScheduleProblem(text, "problem", error);
  ASSERT_TRUE(read) << error;
  EXPECT_EQ(print(*read), text);
}

/// The same order each time, whatever the machine.
TEST(OrderSearch, Repeats) {
  ScheduleProblem problem = makeProblem({.limit = 3, .isVee = false});
  OrderSearchResult first = search(problem), second = search(problem);
  EXPECT_EQ(print(*first.order), print(*second.order));
}

/// What is found for noise is never worse than what is found without, and no
/// mean is below the bound without noise but for the error of samples.
TEST(OrderSearch, Noise) {
  double gain = 0;
  for (unsigned seed : {1, 2, 3}) {
    ScheduleProblem problem = makeProblem({.comm = 0.2});
    problem.noise = Noise{0.4, seed};
    OrderSearchResult result = search(problem);
    ASSERT_TRUE(result.costOfPlain);
    EXPECT_LE(result.cost, *result.costOfPlain);
    EXPECT_GT(result.cost, 24);
    gain = std::max(gain, *result.costOfPlain / result.cost - 1);
  }
  EXPECT_GT(gain, 0.001);
}

TEST(OrderSearch, EndsAtItsTime) {
  // Its optimum is not known.
  ScheduleProblem problem = makeProblem({.numPoints = 8,
                                         .perPoint = 2,
                                         .numMicrobatches = 64,
                                         .limit = 4,
                                         .isVee = true});
  OrderSearchOptions options;
  options.deadline = Deadline(0.5);
  options.effort = uint64_t(1) << 40;
  auto begin = std::chrono::steady_clock::now();
  OrderSearchResult result = searchOrder(problem, options);
  EXPECT_TRUE(result.order);
  EXPECT_LT(result.lowerBound, result.cost);
  std::chrono::duration<double> passed =
      std::chrono::steady_clock::now() - begin;
  EXPECT_LT(passed.count(), 5);
}
