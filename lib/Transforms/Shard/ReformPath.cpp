//===- ReformPath.cpp - the cheapest sequence of reforms ------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ReformPath.h"
#include "tandem/Analysis/Bytes.h"
#include "tandem/Dialect/SPMD/Rates.h"
#include <map>
#include <set>

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;

/// What starting a collective is worth, in bytes that could be sent instead.
static constexpr double kLatencyBytes = 4096;
/// What a second of a collective that has a price is worth, in bytes that could
/// be sent instead.
static constexpr double kBytesPerSecond = 1e10;
/// The cost of a byte written locally, in bytes sent.
static constexpr double kLocalByteCost = 1.0 / 64;
/// What joining strands is worth, in bytes that could be sent instead: more
/// than anything, since no collective is hidden any more. A sum over time is no
/// join: every sequence that ends it has it, and the sooner the less is sent.
static constexpr double kJoinBytes = 1e12;

namespace {
using Node = std::vector<AxisForm>;

class PathSearch {
public:
  PathSearch(RankedTensorType type, MeshAttr mesh, ArrayRef<AxisForm> target,
             DictionaryAttr rates)
      : type(type), mesh(mesh), target(target.begin(), target.end()),
        rates(rates) {}
  std::optional<SmallVector<RankedTensorType>> run(ArrayRef<AxisForm> from);

private:
  double getLocalBytes(const Node &node) const;
  double getStrands(const Node &node, unsigned except) const;
  double getSent(const Node &from, const Node &to, unsigned axis) const;
  double getCost(const Node &from, const Node &to, unsigned axis) const;
  void expand(const Node &node);
  void relax(const Node &from, const Node &to, double cost);
  SmallVector<RankedTensorType> getPath() const;

  RankedTensorType type;
  MeshAttr mesh;
  Node target;
  DictionaryAttr rates;
  std::map<Node, std::pair<double, Node>> best;
  std::set<std::pair<double, Node>> open;
};
} // namespace

/// Bytes that one point of all axes holds.
double PathSearch::getLocalBytes(const Node &node) const {
  double bytes = getElementBytes(type.getElementType());
  for (int64_t size : getLocalShape(type.getShape(), mesh, node))
    bytes *= size;
  return bytes;
}

/// How often one device does work on a tensor of the forms `node`.
double PathSearch::getStrands(const Node &node, unsigned except) const {
  double strands = 1;
  for (unsigned axis = 0; axis < mesh.getNumAxes(); ++axis)
    if (axis != except && mesh.isTime(axis) && !node[axis].isFull())
      strands *= mesh.getSize(axis);
  return strands;
}

static ChangeKind getKind(ArrayRef<AxisForm> from, ArrayRef<AxisForm> to,
                          unsigned axis) {
  if (from[axis].isReduce())
    return to[axis].isFull() ? ChangeKind::AllReduce
                             : ChangeKind::ReduceScatter;
  return to[axis].isFull() ? ChangeKind::AllGather : ChangeKind::AllToAll;
}

/// Of a collective of one strand, its latency included.
double PathSearch::getSent(const Node &from, const Node &to,
                           unsigned axis) const {
  if (auto rate = getRate(rates, mesh.getName(axis), getKind(from, to, axis))) {
    Node whole = from;
    whole[axis] = AxisForm::full();
    return kBytesPerSecond *
           (rate->latency + getLocalBytes(whole) * rate->secondsPerByte);
  }
  double points = mesh.getSize(axis), share = (points - 1) / points;
  double before = getLocalBytes(from), after = getLocalBytes(to);
  if (to[axis].isFull() && from[axis].isReduce())
    return kLatencyBytes + 2 * share * before;
  return kLatencyBytes + share * std::max(before, after);
}

double PathSearch::getCost(const Node &from, const Node &to,
                           unsigned axis) const {
  double before = getLocalBytes(from), after = getLocalBytes(to);
  double strands = getStrands(from, axis);
  double points = mesh.getSize(axis);
  bool isLocal = mesh.isTime(axis) || from[axis].isFull() || points == 1 ||
                 (from[axis].isAt() && to[axis].isReduce());
  if (isLocal) {
    double written = from[axis].isReduce() ? points * before : after;
    bool joins = mesh.isTime(axis) && from[axis].isGather();
    return (joins ? kJoinBytes : 0) + strands * (kLocalByteCost * written + 1);
  }
  return strands * getSent(from, to, axis);
}

void PathSearch::relax(const Node &from, const Node &to, double cost) {
  auto [it, isNew] = best.try_emplace(to, cost, from);
  if (!isNew) {
    if (it->second.first <= cost)
      return;
    open.erase({it->second.first, to});
    it->second = {cost, from};
  }
  open.insert({cost, to});
}

void PathSearch::expand(const Node &node) {
  double cost = best.at(node).first;
  for (unsigned axis = 0; axis < mesh.getNumAxes(); ++axis) {
    SmallVector<AxisForm> forms{AxisForm::reduce(), AxisForm::full()};
    for (int64_t dim = 0; dim < type.getRank(); ++dim)
      forms.push_back(AxisForm::gather(dim));
    if (target[axis].isAt())
      forms.push_back(target[axis]);
    for (AxisForm form : forms) {
      // A value that is made `reduce` on the way costs, and helps nothing.
      if (form == node[axis] || (form.isReduce() && form != target[axis]))
        continue;
      Node next = node;
      next[axis] = form;
      if (canHaveForms(type, mesh, next) && getReformedAxis(mesh, node, next))
        relax(node, next, cost + getCost(node, next, axis));
    }
  }
}

SmallVector<RankedTensorType> PathSearch::getPath() const {
  SmallVector<RankedTensorType> path;
  for (Node node = target; best.at(node).first > 0; node = best.at(node).second)
    path.push_back(withForms(type, mesh, node));
  std::reverse(path.begin(), path.end());
  return path;
}

std::optional<SmallVector<RankedTensorType>>
PathSearch::run(ArrayRef<AxisForm> from) {
  Node start(from.begin(), from.end());
  relax(start, start, 0);
  while (!open.empty()) {
    Node node = open.begin()->second;
    open.erase(open.begin());
    if (node == target)
      return getPath();
    expand(node);
  }
  return std::nullopt;
}

std::optional<SmallVector<RankedTensorType>>
tandem::findReforms(RankedTensorType from, RankedTensorType to, MeshAttr mesh,
                    DictionaryAttr rates) {
  Forms start = getForms(from, mesh), target = getForms(to, mesh);
  // What one point sends has no price.
  auto isAtPoint = [](AxisForm form) { return form.isAt(); };
  if (llvm::any_of(start, isAtPoint) || llvm::any_of(target, isAtPoint))
    rates = {};
  return PathSearch(from, mesh, target, rates).run(start);
}
