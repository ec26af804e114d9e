//===- SortGroups.cpp - topological order of groups -----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OperatorGroups.h"
#include <queue>

using namespace mlir;
using namespace tandem;
using namespace tandem::plan;

/// Kahn's algorithm; among those that can run, the first by pass and by last
/// member. Joining makes no cycles: all readers of what joins them, and the
/// only operand of what joins its producer, are in the group.
void tandem::plan::sortGroups(const StepGraph &graph, OperatorGroups &result) {
  using Rank = std::tuple<PassKind, bool, unsigned, unsigned>;
  unsigned count = result.groups.size();
  std::vector<SmallVector<unsigned, 4>> readers(count);
  std::vector<unsigned> numMissing(count);
  auto getRank = [&](unsigned number) {
    const OperatorGroup &group = result.groups[number];
    // What is carried out of a loop is there when the loop has ended.
    bool isBehind = spmd::isCarried(graph.ops[group.members.back()].op);
    return Rank(group.pass, isBehind, group.members.back(), number);
  };
  std::priority_queue<Rank, std::vector<Rank>, std::greater<>> ready;
  for (auto [number, group] : llvm::enumerate(result.groups)) {
    for (unsigned value : group.inputs)
      if (int producer = graph.values[value].producer; producer >= 0) {
        readers[result.groupOf[producer]].push_back(number);
        ++numMissing[number];
      }
    if (numMissing[number] == 0)
      ready.push(getRank(number));
  }
  std::vector<OperatorGroup> sorted;
  std::vector<int> newNumbers(count, -1);
  while (!ready.empty()) {
    unsigned number = std::get<3>(ready.top());
    ready.pop();
    newNumbers[number] = sorted.size();
    sorted.push_back(std::move(result.groups[number]));
    for (unsigned reader : readers[number])
      if (--numMissing[reader] == 0)
        ready.push(getRank(reader));
  }
  result.groups = std::move(sorted);
  for (int &group : result.groupOf)
    if (group >= 0)
      group = newNumbers[group];
}
