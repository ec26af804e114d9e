//===- Partition.cpp - sections on points, and their costs ----------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Orders/Partition.h"
#include <algorithm>
#include <set>

using namespace tandem::orders;

double tandem::orders::getSeconds(const Section &section, ActionKind kind) {
  switch (kind) {
  case ActionKind::Forward:
    return section.forward;
  case ActionKind::BackwardInput:
    return section.input;
  case ActionKind::BackwardWeight:
    return section.weight;
  case ActionKind::Backward:
    break;
  }
  return section.input + section.weight;
}

HeldChange tandem::orders::getHeldChange(const Section &section,
                                         ActionKind kind) {
  double activations = section.activations;
  double kept = section.kept.value_or(activations);
  double most = std::max(activations, kept);
  switch (kind) {
  case ActionKind::Forward:
    return {activations, section.hasBackward ? 0 : -activations};
  case ActionKind::BackwardInput:
    return {most - activations, kept - most};
  case ActionKind::BackwardWeight:
    return {0, -kept};
  case ActionKind::Backward:
    break;
  }
  return {most - activations, -most};
}

static bool verifyPoints(const Partition &partition, std::string &error) {
  std::vector<bool> hasSection(partition.numPoints);
  for (const Section &section : partition.sections) {
    if (section.point >= partition.numPoints) {
      error = "found a section on point " + std::to_string(section.point) +
              ", expected one of " + std::to_string(partition.numPoints) +
              " points";
      return false;
    }
    hasSection[section.point] = true;
  }
  auto empty = std::find(hasSection.begin(), hasSection.end(), false);
  if (empty == hasSection.end() && partition.numPoints > 0)
    return true;
  error = "found no section on point " +
          std::to_string(empty - hasSection.begin()) +
          ", expected a section on every point";
  return false;
}

static bool verifyEdges(const Partition &partition, std::string &error) {
  std::set<std::pair<unsigned, unsigned>> found;
  for (const Edge &edge : partition.edges) {
    std::string name =
        "edge " + std::to_string(edge.from) + " " + std::to_string(edge.to);
    if (std::max(edge.from, edge.to) >= partition.sections.size())
      error = "found " + name + ", expected sections below " +
              std::to_string(partition.sections.size());
    else if (!found.emplace(edge.from, edge.to).second)
      error = "found a second " + name + ", expected one";
    if (!error.empty())
      return false;
  }
  return true;
}

/// A section of which all that remains is on or behind a cycle; none without a
/// cycle. Removes sections that no other one waits for, until none is left.
static std::optional<unsigned>
findBehindCycle(const Partition &partition, std::vector<unsigned> &numReads,
                const std::vector<std::vector<unsigned>> &readers) {
  std::vector<unsigned> free;
  for (unsigned i = 0; i < partition.sections.size(); ++i)
    if (numReads[i] == 0)
      free.push_back(i);
  while (!free.empty()) {
    unsigned section = free.back();
    free.pop_back();
    for (unsigned reader : readers[section])
      if (--numReads[reader] == 0)
        free.push_back(reader);
  }
  for (unsigned i = 0; i < partition.sections.size(); ++i)
    if (numReads[i] > 0)
      return i;
  return std::nullopt;
}

/// The sections of a cycle, each read by the next one, from one that waits:
/// what it reads and what waits as well, until one comes again.
static std::vector<unsigned> findCycle(const Partition &partition,
                                       const std::vector<unsigned> &numReads,
                                       unsigned section) {
  std::vector<unsigned> cycle;
  auto again = cycle.end();
  while ((again = std::find(cycle.begin(), cycle.end(), section)) ==
         cycle.end()) {
    cycle.push_back(section);
    auto edge = std::find_if(
        partition.edges.begin(), partition.edges.end(), [&](const Edge &edge) {
          return edge.to == cycle.back() && numReads[edge.from] > 0;
        });
    section = edge->from;
  }
  cycle.erase(cycle.begin(), again);
  std::reverse(cycle.begin(), cycle.end());
  std::rotate(cycle.begin(), std::min_element(cycle.begin(), cycle.end()),
              cycle.end());
  return cycle;
}

static bool verifyAcyclic(const Partition &partition, std::string &error) {
  std::vector<unsigned> numReads(partition.sections.size());
  std::vector<std::vector<unsigned>> readers(partition.sections.size());
  for (const Edge &edge : partition.edges) {
    ++numReads[edge.to];
    readers[edge.from].push_back(edge.to);
  }
  std::optional<unsigned> behind =
      findBehindCycle(partition, numReads, readers);
  if (!behind)
    return true;
  error = "found a cycle of sections, expected none: ";
  std::vector<unsigned> cycle = findCycle(partition, numReads, *behind);
  for (unsigned section : cycle)
    error += std::to_string(section) + " -> ";
  error += std::to_string(cycle.front());
  return false;
}

bool tandem::orders::verifyPartition(const Partition &partition,
                                     std::string &error) {
  error.clear();
  return verifyPoints(partition, error) && verifyEdges(partition, error) &&
         verifyAcyclic(partition, error);
}

std::optional<Partition> tandem::orders::inferPartition(const Order &order,
                                                        const EqualCosts &costs,
                                                        std::string_view name,
                                                        std::string &error) {
  Partition partition;
  partition.numPoints = order.points.size();
  std::vector<bool> isFound;
  for (unsigned point = 0; point < order.points.size(); ++point)
    for (const Action &action : order.points[point]) {
      if (isFound.size() <= action.section)
        isFound.resize(action.section + 1);
      if (!isFound[action.section]) {
        partition.sections.resize(isFound.size());
        Section &section = partition.sections[action.section];
        section.point = point;
        section.forward = costs.forward;
        section.input = costs.input;
        section.weight = costs.weight;
        section.sum = costs.sum;
      }
      isFound[action.section] = true;
    }
  auto missing = std::find(isFound.begin(), isFound.end(), false);
  if (missing != isFound.end()) {
    error = std::string(name) + ": found no action of section " +
            std::to_string(missing - isFound.begin()) + ", expected some of " +
            std::to_string(isFound.size()) + " sections";
    return std::nullopt;
  }
  for (unsigned i = 1; i < partition.sections.size(); ++i)
    partition.edges.push_back({i - 1, i, costs.seconds});
  if (verifyPartition(partition, error))
    return partition;
  error = std::string(name) + ": " + error;
  return std::nullopt;
}
