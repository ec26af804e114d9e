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
#include <chrono>
#include <numeric>

using namespace tandem;
using namespace tandem::pipeline;

/// Orders of nodes that are tried for one choice of degrees.
static constexpr size_t kMostOrders = 64;
/// Moving borders made steps up to 10 % shorter on AMP's models.
static constexpr double kNear = 1.15;

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

/// Orders of the cluster's nodes in which no two are equal but for nodes that
/// are alike. The first one is that of the cluster.
static std::vector<std::vector<unsigned>>
listNodeOrders(const cost::Cluster &cluster) {
  std::vector<unsigned> groups = getGroups(cluster), sequence = groups;
  std::vector<std::vector<unsigned>> orders;
  do {
    std::vector<unsigned> next(cluster.nodes.size());
    auto &order = orders.emplace_back();
    for (unsigned group : sequence) {
      while (groups[next[group]] != group)
        ++next[group];
      order.push_back(next[group]++);
    }
    std::next_permutation(sequence.begin(), sequence.end());
  } while (orders.size() < kMostOrders && sequence != groups);
  return orders;
}

static void addSchedules(std::vector<Layout> &all, Layout layout,
                         unsigned numMicrobatches, size_t numLayers,
                         CutAccounting accounting) {
  all.push_back(layout);
  if (accounting == CutAccounting::Amp || layout.pipe == 1)
    return;
  for (const orders::Schedule &schedule : orders::getSchedules()) {
    unsigned sections = schedule.getDefaultSections(layout.pipe);
    std::string error;
    layout.schedule = schedule.name;
    layout.sectionsPerPoint = sections / layout.pipe;
    if (schedule.name != all.back().schedule && sections <= numLayers &&
        schedule.name != orders::getSchedules().front().name &&
        schedule.make({layout.pipe, sections, numMicrobatches}, error))
      all.push_back(layout);
  }
}

static std::vector<Layout> listLayouts(const LayoutProblem &problem) {
  std::vector<Layout> all;
  auto devices = static_cast<unsigned>(problem.cluster.getNumDevices());
  auto numLayers = problem.layers.size();
  auto orders = listNodeOrders(problem.cluster);
  if (!problem.mayOrderNodes)
    orders.resize(1);
  for (unsigned pipe = 1; pipe <= devices && pipe <= numLayers; ++pipe)
    for (unsigned data = 1; devices % pipe == 0 && data <= devices / pipe;
         ++data) {
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
  LayoutSearch(const LayoutProblem &problem, double timeLimit)
      : problem(problem), timeLimit(timeLimit),
        isNamed(!problem.layouts.empty()) {}
  std::vector<LayoutResult> run();

private:
  bool isOver() const;
  void list();
  void priceAll();
  void improve();
  void sort() { std::stable_sort(results.begin(), results.end(), isFaster); }

  using Clock = std::chrono::steady_clock;
  const LayoutProblem &problem;
  double timeLimit;
  bool isNamed;
  Clock::time_point begin = Clock::now();
  std::vector<LayoutResult> results;
  double best = kUnlimited;
};
} // namespace

bool LayoutSearch::isOver() const {
  std::chrono::duration<double> passed = Clock::now() - begin;
  return timeLimit > 0 && passed.count() > timeLimit && best < kUnlimited;
}

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
      result = priceLayout(problem, result.layout, CutEffort::Start);
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
    LayoutResult other = priceLayout(problem, result.layout);
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
                                double timeLimit) {
  return LayoutSearch(problem, timeLimit).run();
}
