//===- Changes.h - price of a change of layout ------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A change of layout on several axes is the cheapest sequence of legal changes
// on one axis. On one axis (HiDup, table 1):
//
//   full -> gather(d)        a local slice, free
//   gather(d) -> full        all-gather
//   gather(d) -> gather(e)   all-to-all
//   reduce -> full           all-reduce
//   reduce -> gather(d)      reduce-scatter
//
// An axis may start or stop splitting a dimension only while it is the
// innermost one that splits it; time is outermost, then space axes in the order
// of the mesh. A change of a tensor that is split (or a sum) over time is made
// by every strand, of one that is `full` over time once. A change over time
// itself is made once, on the device's own memory, and joins the strands unless
// it is a slice.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_COST_CHANGES_H
#define TANDEM_COST_CHANGES_H

#include "tandem/Cost/SearchProblem.h"
#include <vector>

namespace tandem::cost {

/// Seconds of a change of layout; zeros for none.
struct ChangeCost {
  bool isPossible = true;
  /// Whether the strands must be brought together.
  bool joins = false;
  /// Communication on each queue that every strand makes, and that is made
  /// once.
  std::array<double, kMaxAxes> collectivePerStrand{}, collectiveOnce{};
  /// Local work over time (sums, concatenations), made once.
  double local = 0;

  /// The criterion by which one sequence is cheaper than another: all seconds
  /// of all strands, one after the other.
  double getTotal(int64_t numStrands) const;
};

/// One step of a sequence.
struct AxisChange {
  unsigned axis;
  Form from, to;
  /// What one device holds, of one strand or of all, if `axis` were `full`.
  int64_t bytes;
  double seconds;
  bool isPerStrand;
  /// The part of `seconds` that does not depend on the bytes.
  double latency = 0;
};

/// Cheapest sequences, found on demand and remembered per shape. Not for
/// several threads at once.
class ChangeTable {
public:
  explicit ChangeTable(const SearchProblem &problem) : problem(problem) {}

  /// Valid as long as the table.
  const ChangeCost &getCost(unsigned tensor, const Layout &from,
                            const Layout &to);
  /// The sequence itself; empty if there is none or none is needed.
  std::vector<AxisChange> getSequence(unsigned tensor, const Layout &from,
                                      const Layout &to);

private:
  /// A change on one axis.
  struct Edge {
    unsigned target, axis;
    double seconds;
  };
  /// A place with the cheapest sequence that leads there.
  struct Node {
    ChangeCost cost{};
    double total = 0;
    unsigned place = 0, previous = 0, numChanges = 0;
  };
  /// The cheapest sequences from one layout; empty until they are asked for.
  struct Tree {
    std::vector<Node> nodes;
    /// Per place the index of its node; 0 as well if it has none.
    std::vector<unsigned> nodeOf;

    const Node *find(unsigned place) const {
      const Node &node = nodes[nodeOf[place]];
      return node.place == place ? &node : nullptr;
    }
  };
  /// What tensors of one shape, element size and times share. A layout's place
  /// is a number with a digit for each axis; it rises with the key.
  struct Shape {
    /// The first of them.
    unsigned tensor;
    Form rank;
    std::array<unsigned, kMaxAxes> strides{};
    /// Per place; changes are those that begin there.
    std::vector<Layout> layouts{};
    std::vector<std::vector<Edge>> edges{};
    std::vector<Tree> trees{};

    /// None if the tensors cannot lie so.
    std::optional<unsigned> getPlace(const Layout &layout) const;
  };

  Shape &getShape(unsigned tensor);
  void addPlaces(Shape &shape) const;
  void addEdges(Shape &shape, unsigned place) const;
  void makeTree(const Shape &shape, unsigned from, Tree &tree) const;
  const Node *relax(const Shape &shape, Tree &tree, const Node &node,
                    const Edge &edge) const;
  const Node *find(Shape &shape, const Layout &from, const Layout &to) const;

  const SearchProblem &problem;
  std::vector<unsigned> shapeOf;
  std::vector<Shape> shapes;
};

} // namespace tandem::cost

#endif // TANDEM_COST_CHANGES_H
