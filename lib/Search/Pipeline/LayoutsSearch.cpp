//===- LayoutsSearch.cpp - the best layout --------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Layouts are cut in the order of their bounds. One whose bound is no better
// than the best step so far is not cut. The others are cut by the equations
// first. In those that are near the best, unlike nodes then change places where
// there are too many orders for all of them, and borders move.
//
//===----------------------------------------------------------------------===//

#include "tandem/Orders/Simulate.h"
#include "tandem/Search/Pipeline/Layouts.h"
#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <random>
#include <span>

using namespace tandem;
using namespace tandem::pipeline;

/// As many orders of nodes are all tried.
static constexpr double kMostOrders = 64;
/// Of more, blocks are moved in so many of the best ones that were listed, in
/// the best one with blocks in other places, and at most so often.
static constexpr size_t kMostStarts = 4;
static constexpr unsigned kMostShuffles = 16, kMostMoves = 4000;
/// Moving borders made steps up to 10 % shorter on AMP's models.
static constexpr double kNear = 1.15;
/// Of a point, where a schedule leaves it open.
static constexpr unsigned kMostSections = 4;

using Numbers = std::vector<unsigned>;

static std::vector<cost::NodeGroup> listNodes(const cost::Cluster &cluster) {
  std::vector<cost::NodeGroup> nodes;
  for (cost::NodeGroup group : cluster.nodes) {
    auto count = static_cast<size_t>(group.count);
    group.count = 1;
    nodes.insert(nodes.end(), count, group);
  }
  return nodes;
}

/// Of blocks of as many nodes, the first one that is like each.
static Numbers getBlockKinds(const cost::Cluster &cluster, unsigned blockSize) {
  std::vector<cost::NodeGroup> nodes = listNodes(cluster);
  auto getNodes = [&](unsigned block) {
    return std::span(nodes).subspan(block * blockSize, blockSize);
  };
  Numbers kinds;
  for (unsigned block = 0; block < nodes.size() / blockSize; ++block) {
    unsigned first = 0;
    while (!std::ranges::equal(getNodes(first), getNodes(block)))
      ++first;
    kinds.push_back(first);
  }
  return kinds;
}

/// Orders of blocks in which no two are equal but for blocks that are alike.
static double countOrders(const Numbers &kinds) {
  double count = 1;
  std::map<unsigned, double> seen;
  for (size_t i = 0; i < kinds.size(); ++i)
    count *= static_cast<double>(i + 1) / ++seen[kinds[i]];
  return count;
}

/// All of them; the first one is that of the cluster.
static std::vector<Numbers> listOrders(const Numbers &kinds) {
  std::vector<Numbers> orders;
  Numbers sequence = kinds;
  do {
    Numbers next(kinds.size());
    Numbers &order = orders.emplace_back();
    for (unsigned kind : sequence) {
      while (kinds[next[kind]] != kind)
        ++next[kind];
      order.push_back(next[kind]++);
    }
    std::next_permutation(sequence.begin(), sequence.end());
  } while (sequence != kinds);
  return orders;
}

/// What blocks differ in: seconds of a row on their slowest device, memory of
/// the smallest one, bandwidth of the narrowest network.
static std::vector<std::array<double, 3>>
getTraits(const LayoutProblem &problem, unsigned blockSize) {
  auto links = problem.cluster.getLinks();
  std::vector<cost::NodeGroup> nodes = listNodes(problem.cluster);
  std::vector<std::array<double, 3>> traits(nodes.size() / blockSize,
                                            {0, kUnlimited, kUnlimited});
  for (size_t i = 0; i < nodes.size(); ++i) {
    auto &[seconds, memory, bandwidth] = traits[i / blockSize];
    if (links[i].network)
      bandwidth = std::min(bandwidth, links[i].network->bandwidth);
    for (auto [kind, count] : nodes[i].devices) {
      const cost::DeviceKind &device = problem.cluster.kinds[kind];
      memory = std::min(memory, static_cast<double>(device.memorySize));
      double own = 0;
      for (const ModelLayer &layer : problem.layers)
        own += layer.costs.at({device.name, 1}).getTotal();
      seconds = std::max(seconds, own);
    }
  }
  return traits;
}

/// The given order, and blocks that rise and fall in each of their traits.
static std::vector<Numbers> listSorted(const LayoutProblem &problem,
                                       unsigned blockSize) {
  auto traits = getTraits(problem, blockSize);
  Numbers given(traits.size());
  std::iota(given.begin(), given.end(), 0);
  std::vector<Numbers> orders = {given};
  for (size_t trait = 0; trait < traits.front().size(); ++trait)
    for (double sign : {1, -1}) {
      Numbers &order = orders.emplace_back(given);
      std::stable_sort(order.begin(), order.end(), [&](unsigned a, unsigned b) {
        return sign * traits[a][trait] < sign * traits[b][trait];
      });
    }
  std::sort(orders.begin() + 1, orders.end());
  orders.erase(std::unique(orders.begin(), orders.end()), orders.end());
  return orders;
}

/// Orders of the nodes of the cluster: all, or those that a search begins with.
static std::vector<Numbers> listNodeOrders(const LayoutProblem &problem,
                                           unsigned blockSize) {
  Numbers kinds = getBlockKinds(problem.cluster, blockSize);
  auto orders = countOrders(kinds) <= kMostOrders
                    ? listOrders(kinds)
                    : listSorted(problem, blockSize);
  for (Numbers &order : orders) {
    Numbers blocks = std::exchange(order, {});
    for (unsigned block : blocks)
      for (unsigned i = 0; i < blockSize; ++i)
        order.push_back(block * blockSize + i);
  }
  return orders;
}

/// The devices of each node, where all have as many; else 0.
static unsigned countInNode(const cost::Cluster &cluster) {
  unsigned all = 0;
  for (const cost::NodeGroup &group : cluster.nodes) {
    auto own = static_cast<unsigned>(group.getNumDevices());
    if (all && own != all)
      return 0;
    all = own;
  }
  return all;
}

/// Nodes that stay together, where each of `pipe` points keeps its devices; 0:
/// no order but the given one does that.
static unsigned getBlockSize(const LayoutProblem &problem, unsigned pipe) {
  if (problem.nodeOrders == NodeOrders::All)
    return 1;
  unsigned inNode = countInNode(problem.cluster);
  auto ofPoint = static_cast<unsigned>(problem.cluster.getNumDevices()) / pipe;
  if (problem.nodeOrders == NodeOrders::Given || inNode == 0)
    return 0;
  if (inNode % ofPoint == 0)
    return 1;
  return ofPoint % inNode == 0 ? ofPoint / inNode : 0;
}

std::vector<unsigned>
tandem::pipeline::getPointOrder(const LayoutProblem &problem,
                                const Layout &layout) {
  unsigned inNode = countInNode(problem.cluster);
  unsigned ofPoint = layout.data * layout.model;
  std::vector<unsigned> points(layout.pipe);
  for (unsigned i = 0; i < layout.pipe; ++i) {
    points[i] = i;
    if (layout.nodes.empty() || inNode == 0)
      continue;
    unsigned device = i * ofPoint; // the first one of the point
    points[i] =
        (layout.nodes[device / inNode] * inNode + device % inNode) / ofPoint;
  }
  return points;
}

/// The schedules of a layout; those that take any number of sections with up to
/// `kMostSections` of each point, the segments of Fold3D (equations 2 to 5).
static void addSchedules(std::vector<Layout> &all, Layout layout,
                         unsigned numMicrobatches,
                         const LayoutProblem &problem) {
  if (problem.accounting == CutAccounting::Amp || layout.pipe == 1)
    return all.push_back(layout);
  for (const orders::Schedule &schedule : orders::getSchedules()) {
    if (problem.runsForwardFirst && !schedule.runsForwardFirst())
      continue;
    unsigned first = schedule.getDefaultSections(layout.pipe) / layout.pipe;
    unsigned last = schedule.sectionsPerPoint ? first : kMostSections;
    layout.schedule = schedule.name;
    for (unsigned each = first; each <= last; ++each) {
      unsigned sections = each * layout.pipe;
      std::string error;
      layout.sectionsPerPoint = each;
      if (sections <= problem.layers.size() &&
          schedule.make({layout.pipe, sections, numMicrobatches}, error))
        all.push_back(layout);
    }
  }
}

static std::vector<Layout> listLayouts(const LayoutProblem &problem) {
  std::vector<Layout> all;
  auto devices = static_cast<unsigned>(problem.cluster.getNumDevices());
  auto numLayers = problem.layers.size();
  for (unsigned pipe = 1; pipe <= devices && pipe <= numLayers; ++pipe) {
    if (devices % pipe != 0)
      continue;
    unsigned block = getBlockSize(problem, pipe);
    auto orders = listNodeOrders(problem, std::max(block, 1u));
    if (block == 0)
      orders.resize(1);
    for (unsigned data = 1; data <= devices / pipe; ++data) {
      if (devices / pipe % data != 0 || problem.batch % data != 0)
        continue;
      unsigned share = problem.batch / data;
      for (unsigned rows = 1; rows <= share; ++rows)
        for (size_t i = 0; share % rows == 0 && i < orders.size(); ++i) {
          Layout layout{pipe, data, devices / pipe / data, rows};
          layout.nodes = orders[i];
          addSchedules(all, layout, share / rows, problem);
        }
    }
  }
  return all;
}

static bool isFaster(const LayoutResult &first, const LayoutResult &second) {
  if (first.cut.empty() != second.cut.empty())
    return second.cut.empty();
  if (first.cut.empty())
    return first.lowerBound < second.lowerBound;
  return first.seconds < second.seconds;
}

namespace {
class LayoutSearch {
public:
  LayoutSearch(const LayoutProblem &problem, const Deadline &deadline)
      : problem(problem), deadline(deadline),
        isNamed(!problem.layouts.empty()) {}
  std::vector<LayoutResult> run();

private:
  bool isOver() const { return best < kUnlimited && deadline.isOver(); }
  void list();
  void priceAll();
  void reorder();
  bool hasMoreOrders(const Layout &layout) const;
  void moveBlocks(LayoutResult &result);
  bool attempt(LayoutResult &result, const Layout &layout);
  void improve();
  void sort() { std::stable_sort(results.begin(), results.end(), isFaster); }

  const LayoutProblem &problem;
  const Deadline &deadline;
  bool isNamed;
  unsigned numMoves = 0;
  std::vector<LayoutResult> results;
  double best = kUnlimited;
};
} // namespace

void LayoutSearch::list() {
  for (Layout &layout :
       isNamed ? std::vector<Layout>(problem.layouts) : listLayouts(problem)) {
    LayoutResult &result = results.emplace_back();
    auto cuts = makeCutProblem(problem, layout, result.why);
    result.layout = std::move(layout);
    result.lowerBound = cuts ? getLowerBound(*cuts) : kUnlimited;
  }
}

void LayoutSearch::priceAll() {
  for (LayoutResult &result : results) {
    if (!result.why.empty())
      continue;
    if (!isNamed && result.lowerBound >= best) {
      result.why = "no less than " + orders::printQuantity(result.lowerBound) +
                   " s by its bound";
    } else if (isOver()) {
      result.why = "not tried within the time limit";
    } else {
      double bound = result.lowerBound;
      result = priceLayout(problem, result.layout, deadline, CutEffort::Start);
      result.lowerBound = bound;
      if (!result.cut.empty())
        best = std::min(best, result.seconds);
    }
  }
}

/// Whether a layout is faster than the one of `result`, which it is then.
bool LayoutSearch::attempt(LayoutResult &result, const Layout &layout) {
  ++numMoves;
  LayoutResult other = priceLayout(problem, layout, deadline, CutEffort::Start);
  if (!isFaster(other, result))
    return false;
  result = std::move(other);
  best = std::min(best, result.seconds);
  return true;
}

/// Whether not all orders of its nodes were listed.
bool LayoutSearch::hasMoreOrders(const Layout &layout) const {
  unsigned size = getBlockSize(problem, layout.pipe);
  return !isNamed && size > 0 &&
         countOrders(getBlockKinds(problem.cluster, size)) > kMostOrders;
}

/// Until no two unlike blocks are better the other way round, and no block is
/// better in the place of another one.
void LayoutSearch::moveBlocks(LayoutResult &result) {
  if (result.cut.empty() || !hasMoreOrders(result.layout))
    return;
  unsigned size = getBlockSize(problem, result.layout.pipe);
  Numbers kinds = getBlockKinds(problem.cluster, size);
  auto number = static_cast<unsigned>(kinds.size());
  for (bool isBetter = true; std::exchange(isBetter, false);)
    for (unsigned first = 0; first < number; ++first)
      for (unsigned second = first + 1; second < number; ++second) {
        auto begin = first * size, end = (second + 1) * size;
        if (kinds[result.layout.nodes[begin] / size] ==
            kinds[result.layout.nodes[end - 1] / size])
          continue;
        if (isOver() || numMoves >= kMostMoves)
          return;
        Layout layout = result.layout;
        auto from = layout.nodes.begin();
        std::swap_ranges(from + begin, from + begin + size, from + end - size);
        isBetter |= attempt(result, layout);
        for (unsigned shift : {begin + size, end - size}) {
          layout = result.layout;
          from = layout.nodes.begin();
          std::rotate(from + begin, from + shift, from + end);
          isBetter |= attempt(result, layout);
        }
      }
}

/// From the orders that were the best ones before; and from the best one with
/// some blocks in other places, where swaps and moves alone do not lead.
void LayoutSearch::reorder() {
  for (size_t i = 0; i < std::min(kMostStarts, results.size()); ++i)
    moveBlocks(results[i]);
  sort();
  std::mt19937 random;
  for (unsigned i = 0; i < kMostShuffles && !results.empty(); ++i) {
    const LayoutResult &front = results.front();
    unsigned size = getBlockSize(problem, front.layout.pipe);
    if (!hasMoreOrders(front.layout) || isOver())
      return;
    Layout layout = front.layout;
    for (unsigned k = 0; k < 3; ++k) {
      auto draw = [&] {
        return layout.nodes.begin() +
               random() % (layout.nodes.size() / size) * size;
      };
      auto first = draw(), second = draw();
      if (first != second)
        std::swap_ranges(first, first + size, second);
    }
    LayoutResult other =
        priceLayout(problem, layout, deadline, CutEffort::Start);
    moveBlocks(other);
    if (isFaster(other, front))
      results.front() = std::move(other);
  }
}

/// Other cuts, of what named layouts or those near the fastest have.
void LayoutSearch::improve() {
  for (LayoutResult &result : results) {
    if (result.cut.empty() || isOver() ||
        (!isNamed && result.seconds > best * kNear))
      continue;
    LayoutResult other = priceLayout(problem, result.layout, deadline);
    if (!other.cut.empty() && other.seconds < result.seconds) {
      other.lowerBound = result.lowerBound;
      result = std::move(other);
      best = std::min(best, result.seconds);
    }
  }
}

std::vector<LayoutResult> LayoutSearch::run() {
  list();
  sort();
  priceAll();
  sort();
  reorder();
  improve();
  sort();
  if (best == kUnlimited) // the nearest one
    std::stable_sort(results.begin(), results.end(),
                     [](const LayoutResult &first, const LayoutResult &second) {
                       return first.excess < second.excess;
                     });
  return std::move(results);
}

std::vector<LayoutResult>
tandem::pipeline::searchLayouts(const LayoutProblem &problem,
                                const Deadline &deadline) {
  return LayoutSearch(problem, deadline).run();
}
