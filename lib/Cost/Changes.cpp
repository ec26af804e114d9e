//===- Changes.cpp - price of a change of layout --------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Cost/Changes.h"
#include <algorithm>
#include <map>
#include <queue>
#include <tuple>
#include <utility>

using namespace tandem::cost;

double ChangeCost::getTotal(int64_t numStrands) const {
  double total = local;
  for (unsigned queue = 0; queue < kMaxAxes; ++queue)
    total += collectiveOnce[queue] +
             static_cast<double>(numStrands) * collectivePerStrand[queue];
  return total;
}

/// Whether `axis` splits no dimension, or is the innermost one that splits it.
static bool isInnermost(const SearchProblem &problem, const Layout &layout,
                        unsigned axis) {
  int timeAxis = problem.getTimeAxis();
  bool isTime = static_cast<int>(axis) == timeAxis;
  for (unsigned other = 0; other < problem.axes.size(); ++other) {
    if (layout[axis] < 0 || other == axis || layout[other] != layout[axis])
      continue;
    // Time is outermost: whatever else splits the dimension lies inside it.
    if (isTime || (static_cast<int>(other) != timeAxis && other > axis))
      return false;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// One change on one axis
//===----------------------------------------------------------------------===//

/// What one device holds of the tensor, of one strand if it is split over time,
/// with `axis` taken as `full`.
static int64_t getBytesWithout(const SearchProblem &problem,
                               const Tensor &tensor, const Layout &layout,
                               unsigned axis) {
  int64_t bytes = tensor.elementBytes;
  for (int64_t size : tensor.shape)
    bytes *= size;
  for (unsigned other = 0; other < problem.axes.size(); ++other)
    if (other != axis && layout[other] >= 0)
      bytes /= problem.axes[other].size;
  return bytes;
}

/// A change is made by every strand if the tensor is not `full` over time.
static bool isPerStrand(const SearchProblem &problem, const Layout &from,
                        unsigned axis) {
  int timeAxis = problem.getTimeAxis();
  return timeAxis >= 0 && static_cast<int>(axis) != timeAxis &&
         from[timeAxis] != kFull;
}

/// None if it is not legal; whether `to` is allowed where it leads is not
/// looked at.
static std::optional<AxisChange> getChange(const SearchProblem &problem,
                                           const Tensor &tensor,
                                           const Layout &from, unsigned axis,
                                           Form to) {
  Form form = from[axis];
  if (form == to || to == kReduce || !isInnermost(problem, from, axis))
    return std::nullopt;
  AxisChange change{axis, form,
                    to,   getBytesWithout(problem, tensor, from, axis),
                    0,    isPerStrand(problem, from, axis)};
  // A slice is free.
  if (form == kFull)
    return change;
  Change kind = form == kReduce
                    ? (to == kFull ? Change::AllReduce : Change::ReduceScatter)
                    : (to == kFull ? Change::AllGather : Change::AllToAll);
  const ChangeRate &rate =
      problem.axes[axis].rates[static_cast<unsigned>(kind)];
  auto times = static_cast<double>(tensor.times);
  change.latency = times * rate.latency;
  change.seconds = times * (rate.latency + static_cast<double>(change.bytes) *
                                               rate.secondsPerByte);
  return change;
}

/// Adds a change of `from` on `axis`, other than a slice, to `cost`.
static void add(const SearchProblem &problem, const Layout &from, unsigned axis,
                double seconds, ChangeCost &cost) {
  const Axis &info = problem.axes[axis];
  if (info.isTime) {
    cost.joins = true;
    cost.local += seconds;
  } else if (isPerStrand(problem, from, axis)) {
    cost.collectivePerStrand[info.queue] += seconds;
  } else {
    cost.collectiveOnce[info.queue] += seconds;
  }
}

//===----------------------------------------------------------------------===//
// Layouts by number
//===----------------------------------------------------------------------===//

/// Digits of dimensions, then those of `reduce` and `full`.
std::optional<unsigned>
ChangeTable::Shape::getPlace(const Layout &layout) const {
  unsigned place = 0;
  for (unsigned axis = 0; axis < kMaxAxes; ++axis) {
    Form form = layout[axis];
    if (form >= rank || form < kReduce)
      return std::nullopt;
    place += strides[axis] * (form < 0 ? rank + (form - kReduce) : form);
  }
  return place;
}

void ChangeTable::addPlaces(Shape &shape) const {
  unsigned radix = shape.rank + 2, count = 1;
  for (unsigned axis = problem.axes.size(); axis-- > 0; count *= radix)
    shape.strides[axis] = count;
  shape.layouts.resize(count);
  shape.edges.resize(count);
  shape.trees.resize(count);
  for (unsigned place = 0; place < count; ++place)
    for (unsigned axis = 0; axis < problem.axes.size(); ++axis) {
      Form digit = place / shape.strides[axis] % radix;
      shape.layouts[place][axis] =
          digit < shape.rank ? digit : digit - shape.rank + kReduce;
    }
  for (unsigned place = 0; place < count; ++place)
    if (problem.isDivisible(shape.tensor, shape.layouts[place]))
      addEdges(shape, place);
}

/// All changes that lead to the place.
void ChangeTable::addEdges(Shape &shape, unsigned place) const {
  const Layout &layout = shape.layouts[place];
  for (unsigned axis = 0; axis < problem.axes.size(); ++axis) {
    Layout from = layout;
    for (from[axis] = kReduce; from[axis] < shape.rank; ++from[axis])
      if (auto change = getChange(problem, problem.tensors[shape.tensor], from,
                                  axis, layout[axis]);
          change && isInnermost(problem, layout, axis))
        shape.edges[*shape.getPlace(from)].push_back(
            {place, axis, change->seconds});
  }
}

/// Tensors of equal shape, element size and times have one.
ChangeTable::Shape &ChangeTable::getShape(unsigned tensor) {
  if (shapeOf.empty()) {
    std::map<std::tuple<std::vector<int64_t>, int64_t, int64_t>, unsigned>
        known;
    for (unsigned i = 0; i < problem.tensors.size(); ++i) {
      const Tensor &data = problem.tensors[i];
      auto [place, isNew] = known.try_emplace(
          {data.shape, data.elementBytes, data.times}, shapes.size());
      if (isNew)
        shapes.push_back({i, static_cast<Form>(data.shape.size())});
      shapeOf.push_back(place->second);
    }
  }
  Shape &shape = shapes[shapeOf[tensor]];
  if (shape.layouts.empty())
    addPlaces(shape);
  return shape;
}

//===----------------------------------------------------------------------===//
// Shortest paths
//===----------------------------------------------------------------------===//

/// Makes or betters the node that a change leads to. Of equal costs the one
/// with fewer changes stays, then the one found first. None if nothing is
/// better.
const ChangeTable::Node *ChangeTable::relax(const Shape &shape, Tree &tree,
                                            const Node &node,
                                            const Edge &edge) const {
  const Layout &from = shape.layouts[node.place];
  Node next{node.cost, node.total, edge.target, node.place,
            node.numChanges + 1};
  if (from[edge.axis] != kFull) {
    add(problem, from, edge.axis, edge.seconds, next.cost);
    next.total = next.cost.getTotal(problem.getNumStrands());
  }
  const Node *known = tree.find(edge.target);
  if (known && std::tie(next.total, next.numChanges) >=
                   std::tie(known->total, known->numChanges))
    return nullptr;
  if (!known) {
    tree.nodeOf[edge.target] = tree.nodes.size();
    tree.nodes.emplace_back();
  }
  return &(tree.nodes[tree.nodeOf[edge.target]] = next);
}

namespace {
/// Of a search's queue.
struct Entry {
  double total;
  /// By the number of changes, then by place.
  uint64_t order;
  /// Without branches, which nobody could foretell.
  bool operator>(const Entry &other) const {
    return (total > other.total) |
           ((total == other.total) & (order > other.order));
  }
};
} // namespace

/// Dijkstra's algorithm. Equal nodes are taken in the order of their places.
void ChangeTable::makeTree(const Shape &shape, unsigned from,
                           Tree &tree) const {
  std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> queue;
  std::vector<char> isDone(shape.layouts.size());
  tree.nodeOf.resize(shape.layouts.size());
  tree.nodes.push_back({{}, 0, from, from, 0});
  queue.push({0, from});
  while (!queue.empty()) {
    auto place = static_cast<uint32_t>(queue.top().order);
    queue.pop();
    if (std::exchange(isDone[place], true))
      continue;
    Node node = *tree.find(place); // Those that are added may move it.
    for (const Edge &edge : shape.edges[place])
      if (!isDone[edge.target])
        if (const Node *next = relax(shape, tree, node, edge))
          queue.push(
              {next->total, uint64_t(next->numChanges) << 32 | edge.target});
  }
}

/// None if there is no sequence.
const ChangeTable::Node *ChangeTable::find(Shape &shape, const Layout &from,
                                           const Layout &to) const {
  std::optional<unsigned> first = shape.getPlace(from),
                          last = shape.getPlace(to);
  if (!first || !last)
    return nullptr;
  Tree &tree = shape.trees[*first];
  if (tree.nodes.empty())
    makeTree(shape, *first, tree);
  return tree.find(*last);
}

const ChangeCost &ChangeTable::getCost(unsigned tensor, const Layout &from,
                                       const Layout &to) {
  static const ChangeCost impossible{.isPossible = false}, nothing{};
  if (to.isAbsent())
    return nothing;
  // Nothing on a device reads what lies on the host.
  if (from != to && problem.tensors[tensor].elementBytes == 0)
    return impossible;
  const Node *node = find(getShape(tensor), from, to);
  return node ? node->cost : impossible;
}

std::vector<AxisChange> ChangeTable::getSequence(unsigned tensor,
                                                 const Layout &from,
                                                 const Layout &to) {
  std::vector<AxisChange> changes;
  Shape &shape = getShape(tensor);
  Layout after = to;
  for (const Node *node = find(shape, from, to); node && node->numChanges > 0;
       node = find(shape, from, after)) {
    const Layout &before = shape.layouts[node->previous];
    unsigned axis = 0;
    while (before[axis] == after[axis])
      ++axis;
    changes.push_back(*getChange(problem, problem.tensors[tensor], before, axis,
                                 after[axis]));
    after = before;
  }
  std::reverse(changes.begin(), changes.end());
  return changes;
}
