//===- CutsTest.cpp - cuts against brute force ----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Search/Pipeline/Cuts.h"
#include "tandem/Orders/Simulate.h"
#include <algorithm>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <random>

using namespace tandem;
using namespace tandem::pipeline;
using nlohmann::json;

static const json &getCases() {
  static const json file =
      json::parse(std::ifstream(TANDEM_PARTITIONS), nullptr, false);
  return file["cases"];
}

static void addPoints(CutProblem &problem, unsigned number, unsigned numKinds) {
  for (unsigned i = 0; i < numKinds; ++i)
    problem.kinds.push_back("kind" + std::to_string(i));
  for (unsigned i = 0; i < number; ++i)
    problem.points.push_back({i % numKinds, kUnlimited});
}

static CutProblem getProblem(const json &input) {
  CutProblem problem;
  problem.accounting = CutAccounting::Amp;
  problem.numMicrobatches = input["microbatches"];
  addPoints(problem, input["stages"], 1);
  for (double seconds : input["layer_seconds"])
    problem.layers.push_back({{{seconds, 0, 0}}, 0, 0, 0, 0, {}});
  for (size_t i = 0; i < input["cut_seconds"].size(); ++i)
    problem.layers[i].comm = input["cut_seconds"][i].get<std::vector<double>>();
  return problem;
}

TEST(Cuts, MeetsPublishedOptima) {
  ASSERT_EQ(getCases().size(), 7u);
  for (const json &each : getCases()) {
    CutProblem problem = getProblem(each["input"]);
    CutResult result = searchCut(problem);
    std::string error;
    EXPECT_TRUE(verifyCut(problem, result, error)) << error;
    EXPECT_TRUE(result.isOptimal);
    double expected = each["optimum_eq4"]["seconds"];
    EXPECT_NEAR(result.cost, expected, 1e-9 * expected) << each["name"];
  }
}

static void forEachCut(unsigned layers, unsigned sections, Cut &cut,
                       const std::function<void(const Cut &)> &visit) {
  if (sections == 1) {
    cut.push_back(layers);
    visit(cut);
    cut.pop_back();
    return;
  }
  for (unsigned count = 1; count + sections - 1 <= layers; ++count) {
    cut.push_back(count);
    forEachCut(layers - count, sections - 1, cut, visit);
    cut.pop_back();
  }
}

/// By another path than the search's: the verifier says what a cut costs.
static double getCost(const CutProblem &problem, const Cut &cut) {
  orders::Partition partition = makePartition(problem, cut);
  std::string error;
  if (problem.accounting == CutAccounting::Tandem)
    return orders::simulate(partition, *makeOrder(problem, error)).end;
  double largest = 0, sum = 0, longest = 0;
  for (const orders::Section &section : partition.sections) {
    double own = section.forward + section.input + section.weight;
    largest = std::max(largest, own);
    longest = std::max(longest, section.sum);
    sum += own;
  }
  for (const orders::Edge &edge : partition.edges)
    sum += edge.seconds;
  return (problem.numMicrobatches - 1) * largest + sum + longest;
}

static double getOptimum(const CutProblem &problem) {
  double best = kUnlimited;
  std::string error;
  auto order = problem.accounting == CutAccounting::Tandem
                   ? makeOrder(problem, error)
                   : std::nullopt;
  Cut none;
  forEachCut(problem.layers.size(), problem.getNumSections(), none,
             [&](const Cut &cut) {
               if (priceCut(problem, cut, order).excess == 0)
                 best = std::min(best, getCost(problem, cut));
             });
  return best;
}

static CutProblem getRandom(std::mt19937 &random, unsigned maxLayers) {
  auto draw = [&](unsigned least, unsigned most) {
    return std::uniform_int_distribution<unsigned>(least, most)(random);
  };
  auto seconds = [&] {
    return std::uniform_real_distribution<double>(0, 4)(random);
  };
  CutProblem problem;
  unsigned layers = draw(1, maxLayers), points = draw(1, std::min(4u, layers));
  problem.numMicrobatches = draw(1, 9);
  addPoints(problem, points, draw(1, std::min(2u, points)));
  bool isTight = draw(0, 2) == 0, isSummed = draw(0, 1) == 0;
  for (unsigned i = 0; isSummed && i < points; ++i) {
    problem.points[i].latency = seconds() / 8;
    problem.points[i].bandwidth = 1 + seconds();
  }
  for (unsigned i = 0; isTight && i < points; ++i)
    problem.points[i].memory = draw(4, 30);
  for (unsigned i = 0; i + 1 < points; ++i)
    problem.links.push_back({i, i + 1, seconds() / 8, 1 + seconds()});
  for (unsigned i = 0; i < layers; ++i) {
    Layer layer;
    for (size_t kind = 0; kind < problem.kinds.size(); ++kind)
      layer.costs.push_back({seconds(), seconds(), seconds()});
    layer.weights = draw(0, 2);
    layer.activations = draw(0, 2);
    layer.bytes = draw(0, 3);
    if (isSummed) {
      layer.sum = draw(0, 2);
      layer.gradients = draw(0, 60);
      layer.tied = i > 0 && draw(0, 3) == 0 ? draw(0, i - 1) : -1;
    }
    problem.layers.push_back(layer);
  }
  return problem;
}

static void compare(const CutProblem &problem) {
  CutResult result = searchCut(problem);
  double optimum = getOptimum(problem);
  if (optimum == kUnlimited) {
    EXPECT_NE(result.error, "");
    return;
  }
  ASSERT_EQ(result.error, "");
  EXPECT_TRUE(result.isOptimal);
  EXPECT_NEAR(result.cost, optimum, 1e-9 * optimum) << print(problem);
  std::string error;
  EXPECT_TRUE(verifyCut(problem, result, error)) << error;
}

TEST(Cuts, MeetsBruteForceByEquation4) {
  std::mt19937 random(1);
  for (unsigned i = 0; i < 300; ++i) {
    CutProblem problem = getRandom(random, 12);
    problem.accounting = CutAccounting::Amp;
    compare(problem);
  }
}

TEST(Cuts, MeetsBruteForceBySimulation) {
  std::mt19937 random(2);
  for (unsigned i = 0; i < 40; ++i)
    compare(getRandom(random, 12));
}

/// Many layers: no worse than equal parts, and than the cut by equation 4.
TEST(Cuts, ImprovesUnderTheSimulation) {
  std::mt19937 random(3);
  for (unsigned sections : {1, 2}) {
    CutProblem problem;
    addPoints(problem, 4, 1);
    problem.sectionsPerPoint = sections;
    problem.schedule = sections == 1 ? "1f1b" : "interleaved";
    problem.numMicrobatches = 8;
    std::uniform_real_distribution<double> seconds(1, 4);
    for (unsigned i = 0; i < 48; ++i)
      problem.layers.push_back(
          {{{seconds(random), seconds(random), seconds(random)}},
           0,
           1,
           0,
           0,
           {}});
    CutResult result = searchCut(problem);
    ASSERT_EQ(result.error, "");
    EXPECT_LE(result.lowerBound, result.cost);
    EXPECT_LT(result.cost,
              getCost(problem, Cut(4 * sections, 48 / (4 * sections))));
    std::string error;
    EXPECT_TRUE(verifyCut(problem, result, error)) << error;
    result.cost *= 0.99;
    EXPECT_FALSE(verifyCut(problem, result, error));
  }
}

/// Points have just the memory that some cut of many needs, or a quarter
/// more where points have two sections each: one that fits is found.
TEST(Cuts, FindsWhatFits) {
  std::mt19937 random(5);
  auto draw = [&](unsigned least, unsigned most) {
    return std::uniform_int_distribution<unsigned>(least, most)(random);
  };
  for (unsigned i = 0; i < 40; ++i) {
    CutProblem problem;
    unsigned each = 1 + i % 2, points = each == 1 ? 8 : 4;
    addPoints(problem, points, 2);
    problem.sectionsPerPoint = each;
    problem.schedule = each == 1 ? "1f1b" : "interleaved";
    problem.numMicrobatches = 16;
    for (unsigned k = 0; k < 26; ++k) {
      LayerCost cost{1.0 * draw(1, 9), 1.0 * draw(1, 9), 1.0 * draw(1, 9)};
      problem.layers.push_back(
          {{cost, {2, 2, 2}}, 1.0 * draw(0, 40), 1.0 * draw(0, 9), 0, 0, {}});
    }
    Cut cut(8, 1);
    for (unsigned k = 8; k < 26; ++k)
      ++cut[draw(0, 7)];
    std::string error;
    CutPrice price = priceCut(problem, cut, makeOrder(problem, error));
    for (unsigned k = 0; k < points; ++k)
      problem.points[k].memory = price.held[k] * (each == 1 ? 1 : 1.25);
    for (CutEffort effort : {CutEffort::Start, CutEffort::Full}) {
      CutResult result = searchCut(problem, {}, effort);
      ASSERT_EQ(result.error, "") << i;
      EXPECT_TRUE(verifyCut(problem, result, error)) << error;
    }
  }
}

/// Where none fits, the cut that is named holds as little too much as any can
/// on its worst point.
TEST(Cuts, NamesTheNearest) {
  std::mt19937 random(7);
  unsigned numTooLarge = 0;
  for (unsigned i = 0; i < 60; ++i) {
    CutProblem problem = getRandom(random, 9);
    for (CutPoint &point : problem.points)
      point.memory = std::uniform_int_distribution<>(1, 8)(random);
    std::string error;
    auto order = makeOrder(problem, error);
    double least = kUnlimited;
    Cut none;
    forEachCut(problem.layers.size(), problem.getNumSections(), none,
               [&](const Cut &cut) {
                 CutPrice price = priceCut(problem, cut, order);
                 double most = 0;
                 for (size_t k = 0; k < price.held.size(); ++k)
                   most =
                       std::max(most, price.held[k] - problem.points[k].memory);
                 least = std::min(least, most);
               });
    CutResult result = searchCut(problem);
    numTooLarge += !result.error.empty();
    EXPECT_NEAR(result.excess, least, 1e-6) << print(problem);
  }
  EXPECT_GT(numTooLarge, 20u);
}

/// Three layers with the same parameters of 4 bytes, whose gradients of 10
/// bytes a ring sums with 1 B/s. A section holds and sums them once, also where
/// the layer that they are tied to lies in another one.
TEST(Cuts, HasTiedParametersOnce) {
  CutProblem problem;
  addPoints(problem, 2, 1);
  for (CutPoint &point : problem.points)
    point.bandwidth = 1;
  problem.numMicrobatches = 2;
  for (int tied : {-1, 0, 0}) {
    Layer &layer = problem.layers.emplace_back();
    layer.costs = {{1, 1, 1}};
    layer.weights = 4;
    layer.gradients = 10;
    layer.tied = tied;
  }
  std::string error;
  CutPrice price = priceCut(problem, {1, 2}, makeOrder(problem, error));
  EXPECT_EQ(price.held, (std::vector<double>{4, 4}));
  // Point 0 ends its last backward pass at 15 s.
  EXPECT_EQ(price.seconds, 15 + 10);
  for (CutPoint &point : problem.points)
    point.memory = 4;
  EXPECT_EQ(searchCut(problem).error, "");
}

TEST(Cuts, ReadsWhatItPrints) {
  std::mt19937 random(4);
  for (unsigned i = 0; i < 20; ++i) {
    CutProblem problem = getRandom(random, 12);
    std::string error;
    auto again = parseCutProblem(print(problem), "text", error);
    ASSERT_TRUE(again) << error;
    EXPECT_EQ(print(*again), print(problem));
  }
}
