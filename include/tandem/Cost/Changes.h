//===- Changes.h - what a change of layout costs ----------------*- C++ -*-===//
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
#include <unordered_map>
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

  const ChangeCost &getCost(unsigned tensor, const Layout &from,
                            const Layout &to);
  /// The sequence itself; empty if there is none or none is needed.
  std::vector<AxisChange> getSequence(unsigned tensor, const Layout &from,
                                      const Layout &to);

private:
  struct Node;
  using Tree = std::unordered_map<uint32_t, Node>;
  struct Node {
    Layout layout, previous;
    AxisChange change;
    ChangeCost cost;
    double total = 0;
    unsigned numChanges = 0;
    bool isDone = false;
  };

  /// Of the tensor's class and the layout.
  uint64_t getKey(unsigned tensor, const Layout &from);
  const Tree &getTree(unsigned tensor, const Layout &from);
  Tree makeTree(unsigned tensor, const Layout &from) const;
  bool relax(Tree &tree, unsigned tensor, const Node &node, unsigned axis,
             Form to, Layout &layout) const;

  const SearchProblem &problem;
  /// Tensors of equal shape and element size share trees.
  std::vector<unsigned> shapeClasses;
  std::unordered_map<uint64_t, Tree> trees;
  /// What was asked for last among changes of one hash: searches ask for the
  /// same ones again and again.
  struct Recent {
    uint64_t from;
    uint32_t to;
    const ChangeCost *cost = nullptr;
  };
  static constexpr unsigned kRecentBits = 14;
  std::vector<Recent> recent;
};

/// Whether `axis` is the innermost one that splits dimension `dim`.
bool isInnermost(const SearchProblem &problem, const Layout &layout,
                 unsigned axis, Form dim);

} // namespace tandem::cost

#endif // TANDEM_COST_CHANGES_H
