//===- Changes.cpp - what a change of layout costs ------------------------===//
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

using namespace tandem::cost;

double ChangeCost::getTotal(int64_t numStrands) const {
  double total = local;
  for (unsigned queue = 0; queue < kMaxAxes; ++queue)
    total += collectiveOnce[queue] +
             static_cast<double>(numStrands) * collectivePerStrand[queue];
  return total;
}

bool tandem::cost::isInnermost(const SearchProblem &problem,
                               const Layout &layout, unsigned axis, Form dim) {
  int timeAxis = problem.getTimeAxis();
  bool isTime = static_cast<int>(axis) == timeAxis;
  for (unsigned other = 0; other < problem.axes.size(); ++other) {
    if (other == axis || layout[other] != dim)
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

/// The kind of change; none for a slice. `isLegal` is false for what there is
/// no collective for.
static std::optional<Change> getKind(Form from, Form to, bool &isLegal) {
  isLegal = true;
  if (from == kFull && to >= 0)
    return std::nullopt;
  if (from >= 0 && to == kFull)
    return Change::AllGather;
  if (from >= 0 && to >= 0)
    return Change::AllToAll;
  if (from == kReduce && to == kFull)
    return Change::AllReduce;
  if (from == kReduce && to >= 0)
    return Change::ReduceScatter;
  isLegal = false;
  return std::nullopt;
}

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

/// Adds the change of `from` on `axis` to `cost`. None if it is not legal.
static std::optional<AxisChange> applyChange(const SearchProblem &problem,
                                             const Tensor &tensor,
                                             const Layout &from, unsigned axis,
                                             Form to, ChangeCost &cost) {
  bool isLegal;
  std::optional<Change> kind = getKind(from[axis], to, isLegal);
  Layout result = from;
  result[axis] = to;
  if (!isLegal ||
      (from[axis] >= 0 && !isInnermost(problem, from, axis, from[axis])) ||
      (to >= 0 && !isInnermost(problem, result, axis, to)))
    return std::nullopt;
  int timeAxis = problem.getTimeAxis();
  bool isTime = static_cast<int>(axis) == timeAxis;
  AxisChange change{axis, from[axis],
                    to,   getBytesWithout(problem, tensor, from, axis),
                    0,    !isTime && timeAxis >= 0 && from[timeAxis] != kFull};
  if (!kind)
    return change;
  const Axis &info = problem.axes[axis];
  const ChangeRate &rate = info.rates[static_cast<unsigned>(*kind)];
  auto times = static_cast<double>(tensor.times);
  change.latency = times * rate.latency;
  change.seconds = times * (rate.latency + static_cast<double>(change.bytes) *
                                               rate.secondsPerByte);
  if (isTime) {
    cost.joins = true;
    cost.local += change.seconds;
  } else if (change.isPerStrand) {
    cost.collectivePerStrand[info.queue] += change.seconds;
  } else {
    cost.collectiveOnce[info.queue] += change.seconds;
  }
  return change;
}

//===----------------------------------------------------------------------===//
// Shortest paths
//===----------------------------------------------------------------------===//

/// Makes or betters the node that a change on `axis` to `to` leads to. Of equal
/// costs the one with fewer changes stays, then the one found first. True if
/// the node is to be looked at (again).
bool ChangeTable::relax(Tree &tree, unsigned tensor, const Node &node,
                        unsigned axis, Form to, Layout &layout) const {
  layout = node.layout;
  layout[axis] = to;
  auto place = tree.find(layout.getKey());
  if (place == tree.end() ? !problem.isDivisible(tensor, layout)
                          : place->second.isDone)
    return false;
  Node next = node;
  std::optional<AxisChange> change = applyChange(
      problem, problem.tensors[tensor], node.layout, axis, to, next.cost);
  if (!change)
    return false;
  next.previous = node.layout;
  next.layout = layout;
  next.change = *change;
  next.total = next.cost.getTotal(problem.getNumStrands());
  next.numChanges = node.numChanges + 1;
  next.isDone = false;
  if (place == tree.end()) {
    tree.emplace(layout.getKey(), next);
    return true;
  }
  if (std::tie(next.total, next.numChanges) >=
      std::tie(place->second.total, place->second.numChanges))
    return false;
  place->second = next;
  return true;
}

/// Dijkstra's algorithm. Equal nodes are taken in the order of their keys, so
/// that the result does not depend on the table's.
ChangeTable::Tree ChangeTable::makeTree(unsigned tensor,
                                        const Layout &from) const {
  using Entry = std::tuple<double, unsigned, uint32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> queue;
  Tree tree;
  Node root;
  root.layout = root.previous = from;
  tree.emplace(from.getKey(), root);
  queue.emplace(0, 0, from.getKey());
  Form rank = static_cast<Form>(problem.tensors[tensor].shape.size());
  while (!queue.empty()) {
    auto [total, numChanges, key] = queue.top();
    queue.pop();
    Node &nearest = tree.find(key)->second;
    if (nearest.isDone)
      continue;
    nearest.isDone = true;
    Node node = nearest;
    Layout layout;
    for (unsigned axis = 0; axis < problem.axes.size(); ++axis)
      for (Form to = kFull; to < rank; ++to)
        if (to != node.layout[axis] &&
            relax(tree, tensor, node, axis, to, layout)) {
          const Node &next = tree.find(layout.getKey())->second;
          queue.emplace(next.total, next.numChanges, layout.getKey());
        }
  }
  return tree;
}

/// Classes by shape, size of an element and times, in order of appearance.
static std::vector<unsigned> classify(const std::vector<Tensor> &tensors) {
  std::vector<unsigned> classes;
  std::map<std::tuple<std::vector<int64_t>, int64_t, int64_t>, unsigned> known;
  for (const Tensor &tensor : tensors)
    classes.push_back(
        known
            .try_emplace({tensor.shape, tensor.elementBytes, tensor.times},
                         known.size())
            .first->second);
  return classes;
}

uint64_t ChangeTable::getKey(unsigned tensor, const Layout &from) {
  if (shapeClasses.empty())
    shapeClasses = classify(problem.tensors);
  return static_cast<uint64_t>(shapeClasses[tensor]) << 32 | from.getKey();
}

const ChangeTable::Tree &ChangeTable::getTree(unsigned tensor,
                                              const Layout &from) {
  uint64_t key = getKey(tensor, from);
  auto place = trees.find(key);
  if (place == trees.end())
    place = trees.emplace(key, makeTree(tensor, from)).first;
  return place->second;
}

const ChangeCost &ChangeTable::getCost(unsigned tensor, const Layout &from,
                                       const Layout &to) {
  static const ChangeCost impossible = [] {
    ChangeCost cost;
    cost.isPossible = false;
    return cost;
  }();
  if (recent.empty())
    recent.resize(size_t(1) << kRecentBits);
  uint64_t key = getKey(tensor, from);
  uint64_t hash = (key * 0x9e3779b97f4a7c15 ^ to.getKey()) * 0xff51afd7ed558ccd;
  Recent &last = recent[hash >> (64 - kRecentBits)];
  if (last.cost && last.from == key && last.to == to.getKey())
    return *last.cost;
  const Tree &tree = getTree(tensor, from);
  auto place = tree.find(to.getKey());
  last = {key, to.getKey(),
          place == tree.end() ? &impossible : &place->second.cost};
  return *last.cost;
}

std::vector<AxisChange> ChangeTable::getSequence(unsigned tensor,
                                                 const Layout &from,
                                                 const Layout &to) {
  const Tree &tree = getTree(tensor, from);
  std::vector<AxisChange> changes;
  for (auto place = tree.find(to.getKey());
       place != tree.end() && place->second.numChanges > 0;
       place = tree.find(place->second.previous.getKey()))
    changes.push_back(place->second.change);
  std::reverse(changes.begin(), changes.end());
  return changes;
}
