//===- TandemWindows.cpp - operators that are decided together ------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TandemWindows.h"
#include <algorithm>
#include <numeric>

using namespace tandem::cost;
using namespace tandem::search;

OperatorWindows::OperatorWindows(const Facts &facts, double maxCombinations)
    : facts(facts), members(facts.problem.operators.size()) {
  for (unsigned op = 0; op < members.size(); ++op)
    members[facts.groupOf[op]].push_back(op);
  for (unsigned op = 0; op < members.size(); ++op) {
    if (members[op].empty())
      continue;
    std::vector<bool> window = make(op, maxCombinations);
    if (std::find(windows.begin(), windows.end(), window) == windows.end())
      windows.push_back(std::move(window));
  }
}

/// Groups that share a tensor with this one.
void OperatorWindows::addNeighbours(unsigned group,
                                    std::vector<unsigned> &found) const {
  for (unsigned op : members[group]) {
    std::vector<unsigned> tensors = facts.problem.operators[op].operands;
    const std::vector<unsigned> &results = facts.problem.operators[op].results;
    tensors.insert(tensors.end(), results.begin(), results.end());
    for (unsigned tensor : tensors) {
      found.push_back(facts.groupOf[facts.tensors[tensor].producer]);
      for (const TensorUse &use : facts.tensors[tensor].uses)
        found.push_back(facts.groupOf[use.op]);
    }
  }
}

/// Breadth first; groups that would be too many combinations are left out.
std::vector<bool> OperatorWindows::make(unsigned group,
                                        double maxCombinations) const {
  std::vector<bool> window(members.size()), isSeen(members.size());
  std::vector<unsigned> queue = {group}, found;
  isSeen[group] = true;
  double combinations = 1;
  for (size_t i = 0; i < queue.size(); ++i) {
    size_t numSignatures = facts.problem.getSignatures(queue[i]).size();
    double more = combinations * static_cast<double>(numSignatures);
    if (i > 0 && more > maxCombinations)
      continue;
    combinations = more;
    for (unsigned op : members[queue[i]])
      window[op] = true;
    found.clear();
    addNeighbours(queue[i], found);
    for (unsigned next : found)
      if (!isSeen[next]) {
        isSeen[next] = true;
        queue.push_back(next);
      }
  }
  return window;
}

std::vector<std::vector<unsigned>>
OperatorWindows::getSignatures(size_t window,
                               const std::vector<unsigned> &others) const {
  std::vector<std::vector<unsigned>> signatures;
  for (unsigned op = 0; op < others.size(); ++op) {
    std::vector<unsigned> &own = signatures.emplace_back(1, others[op]);
    if (!windows[window][op])
      continue;
    own.resize(facts.problem.getSignatures(op).size());
    std::iota(own.begin(), own.end(), 0);
  }
  return signatures;
}
