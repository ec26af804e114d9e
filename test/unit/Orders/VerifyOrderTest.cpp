//===- VerifyOrderTest.cpp - orders that cannot run -----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Orders/VerifyOrder.h"
#include "MakeOrder.h"
#include "tandem/Orders/Simulate.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <numeric>
#include <random>
#include <set>

using namespace tandem::orders;

/// The error of an order, `fine` if it can run.
static std::string verify(const Partition &partition, const std::string &text,
                          const OrderLimits &limits = {}) {
  std::string error;
  std::optional<Order> order = parseOrder(text, "o", error);
  if (!order || !verifyOrder(partition, *order, limits, "o", error))
    return error;
  return "fine";
}

static Partition read(const std::string &text) {
  std::string error;
  std::optional<Partition> partition = parsePartition(text, "s", error);
  EXPECT_TRUE(partition) << error;
  return *partition;
}

static Partition makeChain(unsigned numPoints) {
  std::string error;
  return *inferPartition(makeOrder("gpipe", {numPoints, numPoints, 1}), {}, "o",
                         error);
}

TEST(VerifyOrder, NamesEntries) {
  const std::pair<const char *, const char *> cases[] = {
      {"0F0,0B0\n1F0,1B0", "fine"},
      {"0F0,0I0,0W0\n1F0,1B0", "fine"},
      {"0F0,0B0", "o:1: found 1 rows, expected 2, one per point"},
      {"0F0,0B0\n1F0,1B0\n\n", "o:3: found 3 rows, expected 2, one per point"},
      {"# made\n0F0,0B0\n# slow\n1F0,2B0",
       "o:4: entry 2: found '2B0', expected a section below 2"},
      {"0F0,0B0\n1F0,,2B0",
       "o:2: entry 3: found '2B0', expected a section below 2"},
      {"0F0,0B0,1F0\n1B0", "o:1: entry 3: found '1F0' on point 0, expected it "
                           "on point 1, where its section lies"},
      {"0F0,,0F0,0B0\n1F0,1B0",
       "o:1: entry 3: found a second '0F0', the first one is entry 1"},
      {"0F0,0B0\n1F0", "o:2: found no '1B0', nor its I and W, expected every "
                       "section to run 1 microbatches"},
      {"0F0,0B0\n1B0",
       "o:2: found no '1F0', expected every section to run 1 microbatches"},
      {"0F0,0B0\n1F0,1I0",
       "o:2: found no '1W0', expected every section to run 1 microbatches"},
      {"0F0,0B0\n1F0,1W0",
       "o:2: found no '1I0', expected every section to run 1 microbatches"},
      {"0F0,0I0,0B0\n1F0,1B0", "o:1: entry 2: found '0I0' beside '0B0', entry "
                               "3, expected B alone, or I and W"},
      {"0F0,0B0,0W0\n1F0,1B0", "o:1: entry 3: found '0W0' beside '0B0', entry "
                               "2, expected B alone, or I and W"},
      {"0F0,0W0,0I0\n1F0,1B0",
       "o:1: entry 2: found '0W0' before '0I0', entry 3, expected it behind"},
      {"0F0,0B0\n1B0,1F0",
       "o:2: entry 1: found '1B0' before '1F0', entry 2, expected it behind"},
      {"0I0,0F0,0W0\n1F0,1B0",
       "o:1: entry 1: found '0I0' before '0F0', entry 2, expected it behind"},
  };
  Partition chain = makeChain(2);
  for (auto [text, error] : cases)
    EXPECT_EQ(verify(chain, text), error);
}

TEST(VerifyOrder, KnowsMicrobatches) {
  Partition chain = makeChain(1);
  EXPECT_EQ(verify(chain, "0F0,0B0,0F1,0B1", {1, {}}),
            "o:1: entry 3: found '0F1', expected a microbatch below 1");
  EXPECT_EQ(verify(chain, "0F0,0B0", {2, {}}),
            "o:1: found no '0F1', expected every section to run 2 "
            "microbatches");
  // Without a number, one microbatch that stands alone names many.
  EXPECT_EQ(verify(chain, "0F0,0B0,0F999999"),
            "o:1: found no '0F1', expected every section to run 1000000 "
            "microbatches");
}

TEST(VerifyOrder, KnowsSectionsWithoutBackward) {
  Partition partition = read("section 0 point 0 F 1\n"
                             "section 1 point 1 F 1 I 1 W 1\nedge 0 1\n");
  EXPECT_EQ(verify(partition, "0F0\n1F0,1B0"), "fine");
  EXPECT_EQ(verify(partition, "0F0,0B0\n1F0,1B0"),
            "o:1: entry 2: found '0B0', expected F alone: section 0 has no "
            "backward pass");
  // Its activations go with F.
  EXPECT_EQ(verify(partition, "0F0,0F1\n1F0,1B0,1F1,1B1", {{}, {1, 1}}),
            "fine");
}

TEST(VerifyOrder, NamesTheMomentOfALimit) {
  Partition partition = read("section 0 point 0 F 1 I 1 W 1 activations 0.5\n"
                             "section 1 point 0 F 1 I 1 W 1 activations 2\n"
                             "edge 0 1\n");
  std::string text = "0F0,1F0,0F1,1I0,1F1,1W0,1B1,0B0,0B1";
  EXPECT_EQ(verify(partition, text, {{}, {5}}), "fine");
  EXPECT_EQ(verify(partition, text, {{}, {4.5}}),
            "o:1: entry 5: point 0 holds 5 of activations from '1F1' on, "
            "expected at most 4.5");
  // I frees nothing, W does.
  EXPECT_EQ(
      verify(partition, "0F0,1F0,1I0,1W0,0B0,0F1,1F1,1B1,0B1", {{}, {2.5}}),
      "fine");
}

TEST(VerifyOrder, NamesCycles) {
  EXPECT_EQ(verify(makeChain(2), "0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1"),
            "o:1: entry 2: found a cycle, expected an order that can run: 0B0 "
            "waits for 1B0, behind 1F1 on point 1; 1F1 waits for 0F1, behind "
            "0B0 on point 0");
  // Point 0 is behind the cycle of the other two.
  EXPECT_EQ(
      verify(makeChain(3), "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n2F1,2F0,2B0,2B1"),
      "o:2: entry 2: found a cycle, expected an order that can run: 1B0 waits "
      "for 2B0, behind 2F1 on point 2; 2F1 waits for 1F1, behind 1B0 on point "
      "1");
  // A point that waits for itself.
  Partition one = read("section 0 point 0 F 1\nsection 1 point 0 F 1\n"
                       "edge 0 1\n");
  EXPECT_EQ(verify(one, "1F0,0F0"),
            "o:1: entry 1: found a cycle, expected an order that can run: 1F0 "
            "waits for 0F0, behind 1F0 on point 0");
}

/// An encoder beside a decoder, and a skip over a section.
TEST(VerifyOrder, FollowsEveryEdge) {
  Partition graph = read("section 0 point 0 F 4 I 1 W 1\n"
                         "section 1 point 1 F 1 I 1 W 1\n"
                         "section 2 point 2 F 1 I 1 W 1\n"
                         "edge 0 2 comm 2\nedge 1 2 comm 1\n");
  std::string error;
  Order order = *parseOrder("0F0,0B0\n1F0,1B0\n2F0,2B0", "o", error);
  ASSERT_TRUE(verifyOrder(graph, order, {}, "o", error)) << error;
  Simulation simulation = simulate(graph, order);
  // 2F0 waits for 0F0 and its transfer; gradients go back in parallel.
  EXPECT_EQ(simulation.actions[2][0].begin, 6);
  EXPECT_EQ(simulation.actions[0][1].begin, 11);
  EXPECT_EQ(simulation.actions[1][1].begin, 10);
  EXPECT_EQ(simulation.makespan, 13);
  EXPECT_EQ(simulation.longestSpan, 13);
  EXPECT_EQ(simulation.points[1].span.end, 12);
  EXPECT_EQ(simulation.points[1].busy, 3);
  // Without a gradient on the edge, B of section 0 waits for its F alone.
  graph.edges[0].hasGradient = false;
  EXPECT_EQ(simulate(graph, order).actions[0][1].begin, 4);
}

TEST(VerifyOrder, TakesNoTimeWithinAPoint) {
  Partition graph = read("section 0 point 0 F 1 I 1 W 1\n"
                         "section 1 point 0 F 1 I 1 W 1\nedge 0 1 comm 9\n");
  std::string error;
  Order order = *parseOrder("0F0,1F0,1I0,0I0,1W0,0W0", "o", error);
  EXPECT_EQ(simulate(graph, order).makespan, 6);
}

/// W needs its I alone: 0I0 begins before 1W0.
TEST(VerifyOrder, LetsWeightsWait) {
  std::string error;
  Partition chain =
      *inferPartition(makeOrder("gpipe", {2, 2, 1}), {1, 2, 4, 0}, "o", error);
  Order order = *parseOrder("0F0,0I0,0W0\n1F0,1I0,1W0", "o", error);
  Simulation simulation = simulate(chain, order);
  EXPECT_EQ(simulation.actions[0][1].begin, 4);
  EXPECT_EQ(simulation.makespan, 10);
  EXPECT_EQ(simulation.longestSpan, 10);
}

namespace {
/// All edges of an order between its actions, found in the plainest way: the
/// order can run if repeated removal of free actions leaves none.
bool canRun(const Partition &partition, const Order &order) {
  using Key = std::tuple<unsigned, char, unsigned>;
  auto key = [](const Action &action) {
    return Key(action.section, getLetter(action.kind), action.microbatch);
  };
  std::set<Key> left;
  for (const auto &actions : order.points)
    for (const Action &action : actions)
      left.insert(key(action));
  auto isFree = [&](const std::vector<Action> &actions, size_t index) {
    auto [section, letter, microbatch] = key(actions[index]);
    for (size_t i = 0; i < index; ++i)
      if (left.count(key(actions[i])))
        return false;
    for (const Edge &edge : partition.edges) {
      if (letter == 'F' && edge.to == section &&
          left.count({edge.from, 'F', microbatch}))
        return false;
      if (letter == 'B' && edge.from == section &&
          left.count({edge.to, 'B', microbatch}))
        return false;
    }
    return true;
  };
  for (bool isChanged = true; isChanged;) {
    isChanged = false;
    for (const auto &actions : order.points)
      for (size_t i = 0; i < actions.size(); ++i)
        if (left.count(key(actions[i])) && isFree(actions, i))
          isChanged = left.erase(key(actions[i]));
  }
  return left.empty();
}

/// A partition of an acyclic graph, and lists in any order in which F stands
/// before B.
std::pair<Partition, Order> makeRandom(std::mt19937 &random) {
  auto pick = [&](unsigned limit) { return unsigned(random() % limit); };
  Partition partition;
  partition.numPoints = 1 + pick(3);
  unsigned numSections = partition.numPoints + pick(3);
  for (unsigned i = 0; i < numSections; ++i)
    partition.sections.push_back(
        {i < partition.numPoints ? i : pick(partition.numPoints)});
  for (unsigned to = 1; to < numSections; ++to)
    for (unsigned from = 0; from < to; ++from)
      if (pick(2))
        partition.edges.push_back({from, to});
  Order order;
  order.points.resize(partition.numPoints);
  unsigned numMicrobatches = 1 + pick(2);
  for (unsigned i = 0; i < numSections; ++i)
    for (unsigned microbatch = 0; microbatch < numMicrobatches; ++microbatch) {
      auto &actions = order.points[partition.sections[i].point];
      size_t place = pick(actions.size() + 1);
      actions.insert(actions.begin() + place,
                     {i, ActionKind::Forward, microbatch});
      place += 1 + pick(actions.size() - place);
      actions.insert(actions.begin() + place,
                     {i, ActionKind::Backward, microbatch});
    }
  return {partition, order};
}
} // namespace

TEST(VerifyOrder, AgreesWithRemoval) {
  std::mt19937 random(7);
  unsigned numFine = 0;
  constexpr unsigned kCases = 3000;
  for (unsigned i = 0; i < kCases; ++i) {
    auto [partition, order] = makeRandom(random);
    std::string error;
    bool isFine = verifyOrder(partition, order, {}, "o", error);
    ASSERT_EQ(isFine, canRun(partition, order)) << print(order) << error;
    ASSERT_TRUE(isFine || error.find("found a cycle") != std::string::npos);
    numFine += isFine;
  }
  // Both answers are common.
  EXPECT_GT(numFine, kCases / 20);
  EXPECT_LT(numFine, kCases - kCases / 20);
}

TEST(Timeline, ShowsActionsAndBubbles) {
  std::string error;
  Order order = makeOrder("gpipe", {2, 2, 2});
  Partition chain = *inferPartition(order, {1, 1, 0, 0}, "o", error);
  EXPECT_EQ(printTimeline(chain, order, simulate(chain, order), 12),
            "point 0 |F0F1    B0B1|\npoint 1 |  F0F1B0B1  |\n"
            "a column is 0.5\n");
}
