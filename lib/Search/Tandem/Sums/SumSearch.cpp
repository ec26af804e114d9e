//===- SumSearch.cpp - best-first search of additive problems -------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Sums/SumSearch.h"
#include "Tandem/Limits.h"
#include "Tandem/Sums/SumMean.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>

using namespace tandem::cost;
using namespace tandem::search;

/// Larger tables leave too little for sweeps.
static uint64_t getMaxEntries(const SumLimits &limits) {
  uint64_t sweeps = 2 * kChainPasses * kLeastSumSweeps;
  return std::min(limits.maxEntries, limits.maxWork / sweeps);
}

namespace {
class SumSearch {
public:
  SumSearch(const Facts &facts, ChangeTable &table, const SumLimits &limits)
      : facts(facts), limits(limits),
        model(facts, table, getMaxEntries(limits), limits.stageEnds,
              limits.upperBound,
              [&limits] { return !limits.proceeds || limits.proceeds(0); }) {}

  SumResult run(const std::vector<unsigned> &start);

private:
  /// A value, and how good it is to decide about it: whether the choices that
  /// are mixed differ, and by how much; where they do not, what the last one
  /// costs beyond the bound, and how close the next value comes.
  struct Branch {
    unsigned variable = 0, value = 0;
    std::array<double, 4> score = {};
  };

  std::unique_ptr<SumNode> makeRoot(const std::vector<unsigned> &start);
  bool expand(SumNode &node);
  double take(const SumModel &own, const std::vector<unsigned> &choice,
              const SumChoice &made);
  std::optional<Branch> findBranch(const SumNode &node,
                                   const MeanSearch &means) const;
  Branch rate(const SumNode &node, const MeanSearch &means,
              const std::vector<double> &excess, unsigned variable) const;
  double getSpread(const SumNode &node, const std::vector<double> &mixture,
                   unsigned variable) const;
  double getSeconds(const SumChoice &made, unsigned variable) const;
  double getWaiting(const SumChoice &made, unsigned variable) const;
  bool branchOnRoom(const SumNode &node, const MeanSearch &means,
                    bool hasOthers);
  void branch(const SumNode &node, const MeanSearch &means);
  void addNode(std::unique_ptr<SumNode> node);
  void raiseBound(double bound);
  /// Choices that cost more are left out here and there, so that no bound can
  /// be higher.
  double getGoal() const { return result.seconds * (1 - limits.gap); }
  bool proceeds(uint64_t added);

  const Facts &facts;
  const SumLimits &limits;
  SumModel model;
  SumResult result;
  /// Nodes that are left, the least bound first; ties by age.
  std::vector<std::unique_ptr<SumNode>> nodes;
  std::set<std::pair<double, size_t>> open;
};
} // namespace

bool SumSearch::proceeds(uint64_t added) {
  result.work += added;
  return result.work <= limits.maxWork && result.numNodes <= limits.maxNodes &&
         (!limits.proceeds || limits.proceeds(result.bound));
}

double SumSearch::take(const SumModel &own, const std::vector<unsigned> &choice,
                       const SumChoice &made) {
  if (made.seconds < std::min(result.seconds, model.forbidden)) {
    result.seconds = made.seconds;
    if (limits.takes)
      result.seconds =
          std::min(result.seconds, limits.takes(own.getPlan(choice)));
  }
  return getGoal();
}

void SumSearch::raiseBound(double bound) {
  result.bound = std::max(result.bound, std::min(bound, getGoal()));
}

//===----------------------------------------------------------------------===//
// Branches
//===----------------------------------------------------------------------===//

double SumSearch::getSeconds(const SumChoice &made, unsigned variable) const {
  double sum = 0;
  for (unsigned op : model.variables[variable].operators)
    if (!facts.isArgument(op))
      sum += facts.problem.getSignatures(op)[made.signatures[variable]].seconds;
  return sum;
}

double SumSearch::getWaiting(const SumChoice &made, unsigned variable) const {
  double sum = 0;
  for (auto [index, slot] : model.variables[variable].slots) {
    const SumFactor &factor = model.factors[index];
    if (model.tables[factor.table].waits)
      // In the model of all values, places among them are signatures.
      sum += model.getFactorSeconds(index, made.signatures).second;
  }
  return sum;
}

/// By how much the choices that are mixed differ in the seconds of the variable
/// and of what waits around it: that is what a mean evens out.
double SumSearch::getSpread(const SumNode &node,
                            const std::vector<double> &mixture,
                            unsigned variable) const {
  std::vector<std::pair<double, double>> terms;
  double seconds = 0, waiting = 0, spread = 0;
  for (size_t i = 0; i < mixture.size(); ++i) {
    if (mixture[i] <= kLeastWeight)
      continue;
    const SumChoice &made = *node.choices[i];
    terms.emplace_back(getSeconds(made, variable), getWaiting(made, variable));
    seconds += mixture[i] * terms.back().first;
    waiting += mixture[i] * terms.back().second;
  }
  size_t place = 0;
  for (double weight : mixture) {
    if (weight <= kLeastWeight)
      continue;
    auto [own, waits] = terms[place++];
    spread += weight * (std::abs(own - seconds) + std::abs(waits - waiting));
  }
  return spread;
}

/// The value that most of the mixture has. Where it has but one, the least.
SumSearch::Branch SumSearch::rate(const SumNode &node, const MeanSearch &means,
                                  const std::vector<double> &excess,
                                  unsigned variable) const {
  const std::vector<unsigned> &values = node.values[variable];
  const std::vector<double> &mixture = means.getMixture();
  std::vector<double> weights(values.size()), costs;
  double all = 0, most = 0;
  Branch result{variable, values.front()};
  for (size_t i = 0; i < mixture.size(); ++i) {
    unsigned value = node.choices[i]->signatures[variable];
    auto place = std::lower_bound(values.begin(), values.end(), value);
    if (place == values.end() || *place != value)
      continue;
    double weight = weights[place - values.begin()] += mixture[i];
    all += mixture[i];
    if (weight > most) {
      most = weight;
      result.value = value;
    }
  }
  if (most > 0 && most < all * (1 - kLeastWeight)) {
    result.score = {1, getSpread(node, mixture, variable)};
    return result;
  }
  for (unsigned value : values)
    costs.push_back(means.getLeast(variable, value));
  auto best = std::min_element(costs.begin(), costs.end());
  result.value = values[best - costs.begin()];
  std::nth_element(costs.begin(), costs.begin() + 1, costs.end());
  result.score = {0, 0, excess[variable], costs[0] - costs[1]};
  return result;
}

/// Nothing: one choice is left, which was looked at.
std::optional<SumSearch::Branch>
SumSearch::findBranch(const SumNode &node, const MeanSearch &means) const {
  std::optional<Branch> best;
  std::vector<double> excess = means.getExcess();
  for (unsigned i = 0; i < node.values.size(); ++i) {
    if (node.values[i].size() < 2)
      continue;
    Branch next = rate(node, means, excess, i);
    if (!best || next.score > best->score)
      best = next;
  }
  return best;
}

void SumSearch::addNode(std::unique_ptr<SumNode> node) {
  std::erase_if(node->choices,
                [&](const auto &made) { return !node->allows(*made); });
  open.emplace(node->bound, nodes.size());
  nodes.push_back(std::move(node));
}

/// Decides whether slots take pieces. False where that is little of what is
/// missing to the goal, and there are others to decide about.
bool SumSearch::branchOnRoom(const SumNode &node, const MeanSearch &means,
                             bool hasOthers) {
  auto [room, excess] = means.getWorstRoom();
  double least = hasOthers ? kRoomShare * (getGoal() - node.bound) : 0;
  if (excess <= least)
    return false;
  auto messages = open.size() < kMaxMessages ? means.getMessages() : nullptr;
  for (Takes takes : {Takes::Yes, Takes::No}) {
    auto child = std::make_unique<SumNode>(node);
    child->messages = messages;
    child->takes.resize(model.rooms.size());
    child->takes[room] = takes;
    addNode(std::move(child));
  }
  return true;
}

void SumSearch::branch(const SumNode &node, const MeanSearch &means) {
  std::optional<Branch> best = findBranch(node, means);
  bool hasOthers = best && best->score.front() > 0;
  if (branchOnRoom(node, means, hasOthers) || !best)
    return;
  auto messages = open.size() < kMaxMessages ? means.getMessages() : nullptr;
  for (bool isTaken : {true, false}) {
    auto child = std::make_unique<SumNode>(node);
    child->messages = messages;
    std::vector<unsigned> &values = child->values[best->variable];
    if (isTaken)
      values = {best->value};
    else
      std::erase(values, best->value);
    double least = kInfinity;
    for (unsigned value : values)
      least = std::min(least, means.getLeast(best->variable, value));
    child->bound = std::max(child->bound, least);
    addNode(std::move(child));
  }
}

/// False if the search ended in the middle of the node.
bool SumSearch::expand(SumNode &node) {
  MeanSearch means(
      model, node, getGoal(), [&](uint64_t added) { return proceeds(added); },
      [&](const SumModel &own, const std::vector<unsigned> &choice,
          const SumChoice &made) { return take(own, choice, made); });
  bool isDone = means.run(/*isRoot=*/result.numNodes++ == 0);
  raiseBound(open.empty() ? node.bound
                          : std::min(node.bound, open.begin()->first));
  if (isDone && node.bound < getGoal())
    branch(node, means);
  return isDone;
}

//===----------------------------------------------------------------------===//
// The way
//===----------------------------------------------------------------------===//

std::unique_ptr<SumNode>
SumSearch::makeRoot(const std::vector<unsigned> &start) {
  auto root = std::make_unique<SumNode>();
  // Of an empty queue.
  root->mean = {{model.numStages}, {1}};
  for (const SumVariable &variable : model.variables)
    root->values.push_back(variable.values);
  if (start.empty())
    return root;
  if (auto choice = model.getChoice(start)) {
    auto made = std::make_shared<SumChoice>(model.evaluate(*choice));
    take(model, *choice, *made);
    root->choices.push_back(std::move(made));
  }
  return root;
}

SumResult SumSearch::run(const std::vector<unsigned> &start) {
  if (!model.isComplete()) {
    result.isTooLarge = true;
    result.work = kEntryWork * model.getNumSteps();
    return result;
  }
  result.seconds = limits.upperBound;
  addNode(makeRoot(start));
  while (!open.empty()) {
    auto [bound, index] = *open.begin();
    raiseBound(bound);
    if (bound >= getGoal())
      break;
    if (!proceeds(0))
      return result;
    open.erase(open.begin());
    std::unique_ptr<SumNode> node = std::move(nodes[index]);
    if (!expand(*node))
      return result;
  }
  if (open.empty())
    raiseBound(kInfinity);
  result.isComplete = true;
  return result;
}

SumResult tandem::search::searchSums(const Facts &facts, ChangeTable &table,
                                     const std::vector<unsigned> &start,
                                     const SumLimits &limits) {
  return SumSearch(facts, table, limits).run(start);
}
