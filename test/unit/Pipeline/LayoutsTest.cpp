//===- LayoutsTest.cpp - orders of nodes, and deadlines -------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Search/Pipeline/Layouts.h"
#include "tandem/Orders/Simulate.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <random>
#include <set>
#include <tuple>

using namespace tandem;
using namespace tandem::pipeline;
using Numbers = std::vector<unsigned>;

/// Nodes of two devices each: two fast ones, and two that are slow.
static LayoutProblem makeProblem() {
  std::string text = R"(batch 16
kind fast memory 64e9
kind slow memory 64e9
nodes 2 fast 2
link node device bandwidth 20e9
link network node bandwidth 2e9
nodes 2 slow 2
link node device bandwidth 20e9
link network node bandwidth 5e8
)";
  for (unsigned i = 0; i < 9; ++i) {
    std::string layer = "layer " + std::to_string(i);
    text += layer + " weights 1e8 bytes 4e6\n" + layer +
            " kind fast F 1 I 1 W 1\n" + layer + " kind slow F 2 I 2 W 2\n";
  }
  std::string error;
  auto problem = parseLayoutProblem(text, "text", error);
  EXPECT_TRUE(problem) << error;
  return *problem;
}

TEST(Layouts, OrdersPoints) {
  LayoutProblem problem = makeProblem();
  problem.nodeOrders = NodeOrders::OfPoints;
  std::set<std::pair<unsigned, std::vector<unsigned>>> seen;
  for (const LayoutResult &result : searchLayouts(problem)) {
    const Layout &layout = result.layout;
    std::vector<unsigned> order = getPointOrder(problem, layout);
    std::vector<unsigned> sorted = order;
    std::sort(sorted.begin(), sorted.end());
    unsigned ofPoint = layout.data * layout.model, device = 0;
    for (unsigned i = 0; i < layout.pipe; ++i) {
      EXPECT_EQ(sorted[i], i);
      // The devices of the point are those that the layout's nodes have there.
      for (unsigned k = 0; k < ofPoint; ++k, ++device) {
        unsigned own = layout.nodes[device / 2] * 2 + device % 2;
        EXPECT_EQ(own, order[i] * ofPoint + k);
      }
    }
    seen.insert({layout.pipe, order});
  }
  auto count = [&](unsigned pipe) {
    return std::count_if(seen.begin(), seen.end(),
                         [&](const auto &each) { return each.first == pipe; });
  };
  EXPECT_EQ(count(1), 1);
  EXPECT_EQ(count(2), 2); // slow nodes last, or first
  EXPECT_EQ(count(4), 6); // two of four are slow
  EXPECT_EQ(count(8), 6);
}

TEST(Layouts, ScheduleWithMoreSections) {
  std::set<unsigned> found;
  for (const LayoutResult &result : searchLayouts(makeProblem()))
    if (result.layout.pipe == 2 && result.layout.schedule == "aiao")
      found.insert(result.layout.sectionsPerPoint);
  EXPECT_EQ(found, (std::set<unsigned>{2, 3, 4}));
}

TEST(Layouts, EndsWithALayout) {
  LayoutProblem problem = makeProblem();
  auto results = searchLayouts(problem, Deadline(0, [] { return true; }));
  ASSERT_FALSE(results.empty());
  EXPECT_FALSE(results.front().cut.empty());
  EXPECT_TRUE(std::any_of(results.begin(), results.end(), [](const auto &each) {
    return each.why == "not tried within the time limit";
  }));
}

/// The seconds of a 1F1B step of `cut` on two points of four devices each, fast
/// ones and slow ones, with two microbatches. A ring of four over two nodes
/// sums gradients, of which each step moves a quarter in each node's two
/// directions.
static double getSummed(const LayoutProblem &problem, const Cut &cut) {
  orders::Partition partition;
  partition.numPoints = 2;
  double transfer = 2 * 2 * 4e6 / 5e8; // two devices of a node, two rows
  partition.edges = {{0, 1, transfer}};
  unsigned layer = 0;
  for (unsigned i = 0; i < 2; ++i) {
    orders::Section section;
    section.point = i;
    section.forward = section.input = section.weight = 2.0 * (i + 1) * cut[i];
    double bytes = 0;
    for (unsigned end = layer + cut[i]; layer < end; ++layer)
      bytes += layer == 8 && i == 0 ? 0 : problem.layers[layer].weights;
    // The last layer has the first one's parameters.
    section.sum = 6 * (bytes / 4) / (i == 0 ? 2e9 : 5e8);
    partition.sections.push_back(section);
  }
  std::string error;
  auto order = orders::findSchedule("1f1b")->make({2, 2, 2}, error);
  return orders::simulate(partition, *order).end;
}

/// A cut is chosen for the step with its sums of gradients, which move the
/// border: heavy layers at the end would take the slow point's network long.
TEST(Layouts, CutsUnderSums) {
  LayoutProblem problem = makeProblem();
  for (unsigned i = 5; i < 9; ++i)
    problem.layers[i].weights = 4e9;
  problem.layers[8].weights = problem.layers[0].weights;
  problem.layers[8].tied = 0;
  LayoutResult result = priceLayout(problem, {2, 4, 1, 2, "1f1b", 1, {}});
  ASSERT_FALSE(result.cut.empty()) << result.why;
  double best = kUnlimited;
  Cut fastest, alone = {6, 3};
  for (unsigned first = 1; first < 9; ++first) {
    Cut cut = {first, 9 - first};
    double seconds = getSummed(problem, cut);
    if (seconds < best) {
      best = seconds;
      fastest = cut;
    }
  }
  EXPECT_EQ(result.cut, fastest);
  EXPECT_NE(result.cut, alone);
  EXPECT_NEAR(result.seconds, best, 1e-9 * best);
  std::string error;
  EXPECT_TRUE(verifyLayout(problem, result, error)) << error;
}

/// A point of two has four layers at least, with weights of 4 * 1e8 each; two
/// microbatches of a row hold 3e9 of each.
TEST(Layouts, MakesLayersAgain) {
  LayoutProblem problem = makeProblem();
  for (ModelLayer &layer : problem.layers)
    layer.activations = 3e9;
  Layout layout{2, 4, 1, 1, "1f1b", 1, {}};
  LayoutResult kept = priceLayout(problem, layout);
  EXPECT_FALSE(kept.isMadeAgain);
  for (cost::DeviceKind &kind : problem.cluster.kinds)
    kind.memorySize = 4'000'000'000;
  LayoutResult again = priceLayout(problem, layout);
  ASSERT_FALSE(again.cut.empty()) << again.why;
  EXPECT_TRUE(again.isMadeAgain);
  // F of each microbatch once more, on the slow point at least.
  EXPECT_GT(again.seconds, 1.2 * kept.seconds);
  for (cost::DeviceKind &kind : problem.cluster.kinds)
    kind.memorySize = 1'000'000'000;
  LayoutResult none = priceLayout(problem, layout);
  EXPECT_TRUE(none.cut.empty());
  EXPECT_TRUE(none.lacksMemory);
  EXPECT_NE(none.why.find("section"), std::string::npos) << none.why;
}

/// Nine layers of which one has most of the weights. Of the layouts that no
/// memory holds, the first one is that which lacks the least of it.
TEST(Layouts, NamesTheNearest) {
  LayoutProblem problem = makeProblem();
  problem.layers[4].weights = 1e9;
  for (cost::DeviceKind &kind : problem.cluster.kinds)
    kind.memorySize = 100'000'000;
  std::vector<LayoutResult> results = searchLayouts(problem);
  ASSERT_FALSE(results.empty());
  EXPECT_TRUE(results.front().lacksMemory);
  // All eight devices share each layer, 4 bytes of each of its parameters.
  EXPECT_EQ(results.front().layout.model, 8u);
  for (const LayoutResult &result : results)
    EXPECT_LE(results.front().excess, result.excess);
}

/// Seven nodes of one device in four groups, each with a speed, a memory and
/// a network of its own: 630 orders. They share no layers.
static LayoutProblem makeUnlike(std::mt19937 &random, const char *accounting) {
  auto draw = [&](double least, double most) {
    return std::to_string(
        std::uniform_real_distribution<double>(least, most)(random));
  };
  std::string text = std::string("accounting ") + accounting + "\nbatch 4\n";
  for (unsigned kind = 0; kind < 4; ++kind)
    text += "kind k" + std::to_string(kind) + " memory " + draw(4e9, 12e9) +
            "\nnodes " + (kind ? "2 k" : "1 k") + std::to_string(kind) +
            " 1\nlink network node bandwidth " + draw(1e8, 4e9) + " latency " +
            draw(0, 0.01) + "\n";
  for (unsigned i = 0; i < 9; ++i) {
    std::string layer = "\nlayer " + std::to_string(i);
    text += layer + " weights " + draw(1e8, 1e9) + " activations " +
            draw(1e7, 1e8) + " bytes " + draw(1e6, 1e8) + " reduced 1e11";
    for (unsigned kind = 0; kind < 4; ++kind)
      text += layer + " kind k" + std::to_string(kind) + " F " + draw(0.1, 1) +
              " I " + draw(0.1, 1) + " W " + draw(0.1, 1);
  }
  std::string error;
  auto problem = parseLayoutProblem(text, "text", error);
  EXPECT_TRUE(problem) << error;
  return *problem;
}

/// Of all orders of the nodes, by the cuts of each, for the layouts of
/// `results`.
static double getBestOfOrders(const LayoutProblem &problem,
                              const std::vector<LayoutResult> &results) {
  std::vector<unsigned> kinds;
  for (const cost::NodeGroup &group : problem.cluster.nodes)
    kinds.insert(kinds.end(), group.count, group.devices.front().first);
  std::vector<Layout> layouts;
  std::set<std::tuple<unsigned, unsigned, unsigned, std::string, unsigned>>
      seen;
  for (const LayoutResult &result : results) {
    const Layout &layout = result.layout;
    if (seen.emplace(layout.pipe, layout.data, layout.rows, layout.schedule,
                     layout.sectionsPerPoint)
            .second)
      layouts.push_back(layout);
  }
  double best = kUnlimited;
  std::vector<unsigned> sequence = kinds;
  do {
    std::vector<unsigned> nodes, next(kinds.size());
    for (unsigned kind : sequence) {
      while (kinds[next[kind]] != kind)
        ++next[kind];
      nodes.push_back(next[kind]++);
    }
    for (Layout &layout : layouts) {
      layout.nodes = nodes;
      LayoutResult result = priceLayout(problem, layout);
      if (!result.cut.empty())
        best = std::min(best, result.seconds);
    }
  } while (std::next_permutation(sequence.begin(), sequence.end()));
  return best;
}

TEST(Layouts, OrdersOfManyNodesMeetBruteForce) {
  std::mt19937 random(6);
  for (const char *accounting : {"amp", "tandem"})
    for (unsigned i = 0; i < 3; ++i) {
      LayoutProblem problem = makeUnlike(random, accounting);
      std::vector<LayoutResult> results = searchLayouts(problem);
      double best = getBestOfOrders(problem, results);
      ASSERT_FALSE(results.empty());
      EXPECT_LE(results.front().seconds, best * (1 + 1e-9))
          << accounting << " " << i;
    }
}

/// The equations count a transfer once. Of few cuts all are simulated, so that
/// a layout is not dropped for transfers that its schedule has to wait for.
TEST(Layouts, StartsWithTheBestOfFewCuts) {
  std::string text = "batch 4\nkind k memory 64e9\nnodes 2 k 1\n"
                     "link network node bandwidth 1e9\n";
  for (unsigned i = 0; i < 6; ++i) {
    std::string layer = "\nlayer " + std::to_string(i) + " ";
    text += layer + "weights 1 bytes " + (i % 2 ? "1e10" : "0") + layer +
            "kind k F 1 I 1 W 1";
  }
  std::string error;
  auto problem = parseLayoutProblem(text, "text", error);
  ASSERT_TRUE(problem) << error;
  Layout layout{2, 1, 1, 1, "zb-v", 2, {}};
  LayoutResult start = priceLayout(*problem, layout, {}, CutEffort::Start);
  EXPECT_EQ(start.seconds, priceLayout(*problem, layout).seconds);
}

/// Three nodes with the same network, which the devices of a node share. Two
/// devices of a point are in one node: their transfers share what the node
/// takes in as well as what it sends out.
TEST(Layouts, SharesLinksAtBothEnds) {
  std::string error;
  auto problem = parseLayoutProblem(R"(batch 4
kind a
nodes 2 a 1
link network node bandwidth 1000
nodes 1 a 2
link node device bandwidth 1e12
link network node bandwidth 1000
layer 0 bytes 1000
layer 0 kind a F 1 I 1 W 1
layer 1 bytes 1000
layer 1 kind a F 1 I 1 W 1
)",
                                    "text", error);
  ASSERT_TRUE(problem) << error;
  // F, transfer of two rows by two devices, F, I, W, and the same back.
  for (std::vector<unsigned> nodes : {Numbers{0, 1, 2}, Numbers{2, 0, 1}}) {
    LayoutResult result = priceLayout(*problem, {2, 2, 1, 2, "1f1b", 1, nodes});
    EXPECT_NEAR(result.seconds, 2 + 4 + 2 + 2 + 4 + 2 + 2 + 2, 1e-9);
  }
}

TEST(Layouts, RefusesNamedLayouts) {
  std::string text = R"(accounting amp
batch 8
kind a memory 64e9
nodes 2 a 1
)",
              layers = R"(layer 0 weights 1e6 bytes 4e6
layer 0 kind a F 1 I 1 W 1
layer 1 weights 1e6 bytes 4e6
layer 1 kind a F 1 I 1 W 1
layout pipe 2 data 1 model 1 rows 1)";
  std::string error;
  EXPECT_FALSE(parseLayoutProblem(text + layers, "text", error));
  EXPECT_NE(error.find("network"), std::string::npos) << error;
  text += "link network node bandwidth 2e9\n";
  EXPECT_TRUE(parseLayoutProblem(text + layers, "text", error)) << error;
  layers += " sections 2 schedule interleaved";
  EXPECT_FALSE(parseLayoutProblem(text + layers, "text", error));
  EXPECT_NE(error.find("sections per point, expected one"), std::string::npos)
      << error;
}
