//===- IlpLayouts.h - changes of layout as a sparse graph -------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Layouts of a tensor as nodes, changes as arcs. An arc whose seconds are those
// of other arcs one after the other is left out, so that paths in the graph
// cost what `ChangeTable` says, with a few arcs per node instead of one per
// pair of layouts (a greedy spanner of stretch 1, Althoefer et al. 1993).
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_ILPLAYOUTS_H
#define TANDEM_LIB_SEARCH_ILPLAYOUTS_H

#include "tandem/Cost/Changes.h"
#include <map>
#include <vector>

namespace tandem::search {

struct LayoutArc {
  unsigned from, to;
  double seconds;
};

class LayoutGraph {
public:
  /// Nodes: `ends`, and what lies on the cheapest ways between them.
  LayoutGraph(cost::ChangeTable &table, unsigned tensor, int64_t numStrands,
              const std::vector<cost::Layout> &ends);

  std::vector<cost::Layout> nodes;
  std::vector<LayoutArc> arcs;

  /// Of a layout that was among `ends`.
  unsigned getNode(const cost::Layout &layout) const {
    return indices.at(layout);
  }
  /// Infinite if there is no way.
  double getSeconds(unsigned from, unsigned to) const {
    return seconds[from * nodes.size() + to];
  }
  /// Whether some cheapest way between these nodes may take the arc.
  bool isOnWay(const LayoutArc &arc, const std::vector<unsigned> &from,
               const std::vector<unsigned> &to) const;

private:
  void addNodes(cost::ChangeTable &table, unsigned tensor);
  void addArcs();

  std::map<cost::Layout, unsigned> indices;
  std::vector<double> seconds;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_ILPLAYOUTS_H
