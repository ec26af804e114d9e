//===- IlpLayouts.cpp - changes of layout as a sparse graph ---------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "IlpLayouts.h"
#include "../Infinity.h"
#include <algorithm>
#include <limits>

using namespace tandem::cost;
using namespace tandem::search;

/// Sums of the same seconds in another order are equal.
static bool isNoMore(double a, double b) {
  constexpr double kRounding = 1e-12;
  return a <= b * (1 + kRounding);
}

LayoutGraph::LayoutGraph(ChangeTable &table, unsigned tensor,
                         int64_t numStrands, const std::vector<Layout> &ends) {
  for (const Layout &layout : ends)
    if (indices.try_emplace(layout, nodes.size()).second)
      nodes.push_back(layout);
  addNodes(table, tensor);
  size_t size = nodes.size();
  seconds.resize(size * size, kInfinity);
  for (unsigned from = 0; from < size; ++from)
    for (unsigned to = 0; to < size; ++to)
      if (const ChangeCost &change =
              table.getCost(tensor, nodes[from], nodes[to]);
          change.isPossible)
        seconds[from * size + to] = change.getTotal(numStrands);
  addArcs();
}

void LayoutGraph::addNodes(ChangeTable &table, unsigned tensor) {
  size_t numEnds = nodes.size();
  for (unsigned from = 0; from < numEnds; ++from)
    for (unsigned to = 0; to < numEnds; ++to) {
      Layout layout = nodes[from];
      for (const AxisChange &change :
           table.getSequence(tensor, nodes[from], nodes[to])) {
        layout[change.axis] = change.to;
        if (indices.try_emplace(layout, nodes.size()).second)
          nodes.push_back(layout);
      }
    }
}

/// Shortest changes first: one that those before it make up for is left out.
void LayoutGraph::addArcs() {
  size_t size = nodes.size();
  std::vector<LayoutArc> pairs;
  for (unsigned from = 0; from < size; ++from)
    for (unsigned to = 0; to < size; ++to)
      if (from != to && getSeconds(from, to) < kInfinity)
        pairs.push_back({from, to, getSeconds(from, to)});
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](auto &a, auto &b) { return a.seconds < b.seconds; });
  std::vector<double> nearest(size * size, kInfinity);
  for (unsigned i = 0; i < size; ++i)
    nearest[i * size + i] = 0;
  for (const LayoutArc &arc : pairs) {
    if (isNoMore(nearest[arc.from * size + arc.to], arc.seconds))
      continue;
    arcs.push_back(arc);
    for (unsigned a = 0; a < size; ++a)
      for (unsigned b = 0; b < size; ++b)
        nearest[a * size + b] = std::min(
            nearest[a * size + b], nearest[a * size + arc.from] + arc.seconds +
                                       nearest[arc.to * size + b]);
  }
}

bool LayoutGraph::isOnWay(const LayoutArc &arc,
                          const std::vector<unsigned> &from,
                          const std::vector<unsigned> &to) const {
  for (unsigned source : from)
    for (unsigned sink : to) {
      double way = getSeconds(source, sink);
      if (way < kInfinity &&
          isNoMore(getSeconds(source, arc.from) + arc.seconds +
                       getSeconds(arc.to, sink),
                   way))
        return true;
    }
  return false;
}
