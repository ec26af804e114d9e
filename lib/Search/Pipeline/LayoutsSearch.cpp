//===- LayoutsSearch.cpp - the best layout --------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Layouts are cut in the order of their bounds. One whose bound is no better
// than the best step so far is not cut. The others are cut by equation 4 first;
// borders then move in those that are near the best.
//
//===----------------------------------------------------------------------===//

#include "tandem/Orders/Simulate.h"
#include "tandem/Search/Pipeline/Layouts.h"
#include <algorithm>
#include <numeric>

using namespace tandem;
using namespace tandem::pipeline;

/// Orders of nodes that are tried for one choice of degrees.
static constexpr size_t kMostOrders = 64;
/// Moving borders made steps up to 10 % shorter on AMP's models.
static constexpr double kNear = 1.15;
/// Of a point, where a schedule leaves it open.
static constexpr unsigned kMostSections = 4;

/// The first group that is like each node's.
static std::vector<unsigned> getGroups(const cost::Cluster &cluster) {
  std::vector<unsigned> groups;
  for (const cost::NodeGroup &group : cluster.nodes) {
    unsigned first = 0;
    auto isLike = [&](cost::NodeGroup other) {
      other.count = group.count;
      return other == group;
    };
    while (!isLike(cluster.nodes[first]))
      ++first;
    groups.insert(groups.end(), group.count, first);
  }
  return groups;
}

/// Orders of blocks of as many nodes in which no two are equal but for blocks
/// that are alike. The first one is that of the cluster.
static std::vector<std::vector<unsigned>>
listNodeOrders(const cost::Cluster &cluster, unsigned blockSize) {
  std::vector<unsigned> groups = getGroups(cluster);
  // The first block that is like each one.
  std::vector<unsigned> kinds;
  auto getNodes = [&](unsigned block) {
    auto begin = groups.begin() + block * blockSize;
    return std::vector<unsigned>(begin, begin + blockSize);
  };
  for (unsigned block = 0; block < groups.size() / blockSize; ++block) {
    unsigned first = 0;
    while (getNodes(first) != getNodes(block))
      ++first;
    kinds.push_back(first);
  }
  std::vector<unsigned> sequence = kinds;
  std::vector<std::vector<unsigned>> orders;
  do {
    std::vector<unsigned> next(kinds.size());
    auto &order = orders.emplace_back();
    for (unsigned kind : sequence) {
      while (kinds[next[kind]] != kind)
        ++next[kind];
      unsigned block = next[kind]++;
      for (unsigned i = 0; i < blockSize; ++i)
        order.push_back(block * blockSize + i);
    }
    std::next_permutation(sequence.begin(), sequence.end());
  } while (orders.size() < kMostOrders && sequence != kinds);
  return orders;
}

/// The devices of each node, where all have as many; else 0.
static unsigned countInNode(const cost::Cluster &cluster) {
  unsigned all = 0;
  for (const cost::NodeGroup &group : cluster.nodes) {
    unsigned own = 0;
    for (auto [kind, count] : group.devices)
      own += count;
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
                         unsigned numMicrobatches, size_t numLayers,
                         CutAccounting accounting) {
  all.push_back(layout);
  if (accounting == CutAccounting::Amp || layout.pipe == 1)
    return;
  for (const orders::Schedule &schedule : orders::getSchedules()) {
    unsigned first = schedule.getDefaultSections(layout.pipe) / layout.pipe;
    unsigned last = schedule.sectionsPerPoint ? first : kMostSections;
    layout.schedule = schedule.name;
    for (unsigned each = first; each <= last; ++each) {
      unsigned sections = each * layout.pipe;
      std::string error;
      layout.sectionsPerPoint = each;
      if (sections <= numLayers &&
          schedule.name != orders::getSchedules().front().name &&
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
    auto orders = listNodeOrders(problem.cluster, std::max(block, 1u));
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
          addSchedules(all, layout, share / rows, numLayers,
                       problem.accounting);
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
  void improve();
  void sort() { std::stable_sort(results.begin(), results.end(), isFaster); }

  const LayoutProblem &problem;
  const Deadline &deadline;
  bool isNamed;
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
  improve();
  sort();
  return std::move(results);
}

std::vector<LayoutResult>
tandem::pipeline::searchLayouts(const LayoutProblem &problem,
                                const Deadline &deadline) {
  return LayoutSearch(problem, deadline).run();
}
