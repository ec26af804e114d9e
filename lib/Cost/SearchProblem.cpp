//===- SearchProblem.cpp - problem of a plan search -----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Cost/SearchProblem.h"
#include "tandem/Cost/Accounting.h"
#include <algorithm>
#include <numeric>

using namespace tandem::cost;

bool SearchProblem::isOverTime(const Signature &signature) const {
  int axis = getTimeAxis();
  if (axis < 0)
    return false;
  auto isSplit = [axis](const Layout &layout) {
    return layout[axis] != kFull && !layout.isAbsent();
  };
  return std::any_of(signature.operands.begin(), signature.operands.end(),
                     isSplit) ||
         std::any_of(signature.results.begin(), signature.results.end(),
                     isSplit);
}

unsigned SearchProblem::getNumQueues() const {
  unsigned count = 0;
  for (const Axis &axis : axes)
    if (!axis.isTime)
      count = std::max(count, axis.queue + 1);
  return count;
}

std::vector<std::vector<unsigned>> SearchProblem::getTieGroups() const {
  std::vector<unsigned> before(operators.size());
  std::iota(before.begin(), before.end(), 0);
  auto findFirst = [&](unsigned op) {
    while (before[op] != op)
      op = before[op] = before[before[op]];
    return op;
  };
  for (auto [first, second] : ties) {
    unsigned a = findFirst(first), b = findFirst(second);
    before[std::max(a, b)] = std::min(a, b);
  }
  std::vector<std::vector<unsigned>> groups;
  std::vector<unsigned> groupOf(operators.size());
  for (unsigned op = 0; op < operators.size(); ++op) {
    unsigned first = findFirst(op);
    if (first == op) {
      groupOf[op] = groups.size();
      groups.emplace_back();
    }
    groups[groupOf[first]].push_back(op);
  }
  return groups;
}

bool SearchProblem::hasAgain() const {
  return std::any_of(operators.begin(), operators.end(),
                     [](const Operator &op) { return op.isAgain; });
}

std::vector<unsigned> SearchProblem::getProducers() const {
  std::vector<unsigned> producers(tensors.size());
  for (unsigned op = 0; op < operators.size(); ++op)
    for (unsigned tensor : operators[op].results)
      producers[tensor] = op;
  return producers;
}

std::vector<bool> SearchProblem::getTiedOutputs() const {
  std::vector<bool> isTiedOutput(operators.size());
  for (auto [first, second] : ties) {
    if (operators[first].kind == Operator::Kind::Resident)
      isTiedOutput[second] = true;
    if (operators[second].kind == Operator::Kind::Resident)
      isTiedOutput[first] = true;
  }
  return isTiedOutput;
}

unsigned SearchProblem::getRoot(unsigned tensor) const {
  for (int next = tensors[tensor].viewOf;
       next >= 0 && !tensors[next].isInKernel; next = tensors[next].viewOf)
    tensor = next;
  return tensor;
}

int64_t SearchProblem::getBytes(unsigned tensor, const Layout &layout) const {
  if (layout.isAbsent())
    return 0;
  int64_t parts = 1;
  int64_t bytes = tensors[tensor].elementBytes;
  for (int64_t size : tensors[tensor].shape)
    bytes *= size;
  for (unsigned axis = 0; axis < axes.size(); ++axis) {
    if (axes[axis].isTime && layout[axis] != kFull)
      parts = axes[axis].size;
    // Of a sum over time every strand has a whole term.
    if (layout[axis] >= 0)
      bytes /= axes[axis].size;
  }
  return (bytes + alignment - 1) / alignment * alignment * parts;
}

bool SearchProblem::isDivisible(unsigned tensor, const Layout &layout) const {
  const std::vector<int64_t> &shape = tensors[tensor].shape;
  std::array<int64_t, 128> parts;
  parts.fill(1);
  for (unsigned axis = 0; axis < axes.size(); ++axis) {
    Form form = layout[axis];
    if (form < 0)
      continue;
    if (form >= static_cast<Form>(shape.size()))
      return false;
    // The paper's problems split unevenly, and its costs count whole tensors.
    if (!getRules(accounting).splitsEvenly)
      continue;
    parts[form] *= axes[axis].size;
    if (shape[form] % parts[form] != 0)
      return false;
  }
  return true;
}
