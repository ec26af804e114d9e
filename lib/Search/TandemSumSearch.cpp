//===- TandemSumSearch.cpp - the least of problems that add up ------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TandemSumSearch.h"
#include "TandemSparse.h"
#include "TandemTree.h"
#include <algorithm>
#include <memory>
#include <set>

using namespace tandem::cost;
using namespace tandem::search;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// Tables of eliminations of up to this many entries are made.
constexpr double kMaxTree = 1 << 23;
/// Where they are larger: sweeps for one mean, and combinations below the limit
/// that are looked at.
constexpr unsigned kSweeps = 40;
constexpr double kLeastGain = 3e-4;
constexpr uint64_t kSweepWork = 1'000'000'000;
constexpr uint64_t kMaxSteps = 3'000'000;
/// Means that are tried per node, at the root and elsewhere.
constexpr unsigned kRootMeans = 40, kMeans = 12;

namespace {
/// What is left to choose from, and what that costs at least.
struct Node {
  std::vector<std::vector<unsigned>> values;
  double bound = 0;
  /// The T_t that matter, and their weights.
  std::vector<unsigned> thresholds;
  std::vector<double> weights;
};

class SumSearch {
public:
  SumSearch(const Facts &facts, ChangeTable &table, const SumLimits &limits)
      : facts(facts), table(table), limits(limits) {}

  SumResult run(const std::vector<std::vector<unsigned>> &starts);

private:
  bool expand(Node node);
  bool raise(Node &node, bool isRoot);
  double solve(const SumPrices &prices);
  SumPrices getMean(const Node &node) const;
  void take(const std::vector<unsigned> &choice);
  bool dropValues(Node &node);
  void branch(const Node &node);
  void raiseBound(const Node &node);
  /// Choices that cost more are left out here and there, so that no bound can
  /// be higher.
  double getGoal() const { return result.seconds * (1 - limits.gap); }
  bool isGood(double bound) const { return bound >= getGoal(); }
  bool proceeds();

  const Facts &facts;
  ChangeTable &table;
  const SumLimits &limits;
  SumResult result;
  /// Nodes that are left, the least bound first; ties by age.
  std::vector<std::unique_ptr<Node>> nodes;
  std::set<std::pair<double, size_t>> open;
  uint64_t work = 0;
  bool isStopped = false;
  //--- Of the node at hand.
  std::unique_ptr<SumModel> model;
  std::unique_ptr<SumTree> tree;
  std::unique_ptr<SumDual> dual;
  std::vector<unsigned> choice;
  std::vector<std::vector<double>> least;
  /// Between bound and limit lay too many combinations when they lay so far
  /// apart.
  double hopeless = kInfinity;
  /// Choices, their T_t, and how they are mixed by the best mean.
  std::vector<std::vector<unsigned>> choices;
  std::vector<std::vector<double>> rows;
  std::vector<double> mixture;
};
} // namespace

bool SumSearch::proceeds() {
  // The node at hand has the least bound of those that were open.
  if (work > limits.maxWork || result.numNodes > limits.maxNodes ||
      (limits.proceeds && !limits.proceeds(std::min(result.bound, getGoal()))))
    isStopped = true;
  return !isStopped;
}

void SumSearch::take(const std::vector<unsigned> &given) {
  double seconds =
      model->getCost(model->getPrices(model->getWorst(given)), given);
  if (seconds >= result.seconds || seconds >= model->forbidden)
    return;
  result.seconds = seconds;
  if (limits.takes)
    limits.takes(model->getPlan(given));
}

/// The node at hand had the least bound of all that are open.
void SumSearch::raiseBound(const Node &node) {
  double bound = std::min(node.bound, getGoal());
  if (!open.empty())
    bound = std::min(bound, open.begin()->first);
  result.bound = std::max(result.bound, bound);
}

SumPrices SumSearch::getMean(const Node &node) const {
  unsigned numOperators = facts.problem.operators.size();
  SumPrices mean;
  mean.computation.assign(numOperators, 0);
  mean.waiting.assign(numOperators, 0);
  for (size_t i = 0; i < node.thresholds.size(); ++i) {
    SumPrices prices = model->getPrices(node.thresholds[i]);
    for (unsigned op = 0; op < numOperators; ++op) {
      mean.computation[op] += node.weights[i] * prices.computation[op];
      mean.waiting[op] += node.weights[i] * prices.waiting[op];
    }
  }
  return mean;
}

/// A bound for the prices, a choice, and a bound per value.
double SumSearch::solve(const SumPrices &prices) {
  if (tree) {
    work += 6 * static_cast<uint64_t>(tree->getSize());
    double bound = tree->solve(prices, choice);
    least = tree->getLeast();
    return bound;
  }
  auto next = std::make_unique<SumDual>(*model, prices);
  if (dual)
    next->adopt(*dual);
  dual = std::move(next);
  double before = -kInfinity;
  uint64_t most =
      std::clamp<uint64_t>(kSweepWork / (1 + dual->getWork()), 6, kSweeps);
  for (unsigned i = 0; i < most && proceeds(); ++i) {
    dual->sweep();
    work += dual->getWork();
    if (i % 4 != 3)
      continue;
    double now = dual->getBound();
    if (now - before < kLeastGain * now)
      break;
    before = now;
  }
  choice = dual->round();
  take(choice);
  least = dual->getLeast();
  double bound = dual->getBound();
  double limit = getGoal() + 2e-13 * model->forbidden;
  // What was too much before is tried again only with much less between.
  if (limit - bound > 0.8 * hopeless)
    return bound;
  SparseResult exact = minimizeBelow(*model, *dual, limit, kMaxSteps);
  work += 100 * exact.numSteps;
  if (!exact.isComplete) {
    hopeless = limit - bound;
    return bound;
  }
  if (!exact.choice.empty())
    choice = std::move(exact.choice);
  least = std::move(exact.leastOf);
  return std::min(limit, exact.least);
}

/// Looks for the mean whose least choice costs the most. False if the node need
/// not be looked at further.
bool SumSearch::raise(Node &node, bool isRoot) {
  choices.clear();
  rows.clear();
  double tolerance = 1e-13 * model->forbidden;
  for (unsigned i = 0; i < (isRoot ? kRootMeans : kMeans); ++i) {
    if (!proceeds())
      return false;
    double before = node.bound, bound = solve(getMean(node)) - tolerance;
    node.bound = std::max(node.bound, bound);
    raiseBound(node);
    unsigned worst = model->getWorst(choice);
    take(choice);
    if (isGood(node.bound))
      return false;
    if (std::find(choices.begin(), choices.end(), choice) != choices.end() &&
        i > 0)
      return true;
    choices.push_back(choice);
    if (std::find(node.thresholds.begin(), node.thresholds.end(), worst) ==
        node.thresholds.end())
      node.thresholds.push_back(worst);
    rows.clear();
    for (const std::vector<unsigned> &other : choices) {
      std::vector<double> &row = rows.emplace_back();
      for (unsigned t : node.thresholds)
        row.push_back(model->getCost(model->getPrices(t), other));
    }
    if (bound > before && dropValues(node))
      return !isGood(node.bound);
    node.weights = solveGame(rows, mixture);
    // What the choices so far allow is hardly more.
    double value = 0;
    for (size_t j = 0; j < rows.size(); ++j) {
      double sum = 0;
      for (size_t t = 0; t < node.weights.size(); ++t)
        sum += node.weights[t] * rows[j][t];
      value = j == 0 ? sum : std::min(value, sum);
    }
    if (tree && value - node.bound < 1e-5 * node.bound)
      return true;
  }
  return true;
}

/// Drops values that cost too much. True if that is enough to begin anew.
bool SumSearch::dropValues(Node &node) {
  size_t before = 0, behind = 0;
  double limit = getGoal() + 1e-13 * model->forbidden;
  for (unsigned i = 0; i < least.size(); ++i) {
    const std::vector<unsigned> &all = model->variables[i].values;
    for (unsigned j = 0; j < least[i].size(); ++j)
      if (least[i][j] >= limit)
        std::erase(node.values[i], all[j]);
    before += all.size();
    behind += node.values[i].size();
    if (node.values[i].empty())
      node.bound = kInfinity;
  }
  return behind * 10 < before * 9;
}

/// Variables about which the choices disagree the most are decided first.
void SumSearch::branch(const Node &node) {
  unsigned best = 0, bestValue = 0;
  double bestScore = -1;
  for (unsigned i = 0; i < model->variables.size(); ++i) {
    if (node.values[i].size() < 2)
      continue;
    std::map<unsigned, double> weights;
    for (size_t j = 0; j < choices.size(); ++j)
      weights[model->variables[i].values[choices[j][i]]] +=
          j < mixture.size() ? mixture[j] : 0;
    auto most = std::max_element(
        weights.begin(), weights.end(),
        [](const auto &a, const auto &b) { return a.second < b.second; });
    double score = 1 - most->second;
    if (score > bestScore) {
      bestScore = score;
      best = i;
      bestValue = most->first;
    }
  }
  if (bestScore < 0)
    return;
  for (bool isTaken : {true, false}) {
    auto child = std::make_unique<Node>(node);
    std::vector<unsigned> &values = child->values[best];
    if (isTaken)
      values = {bestValue};
    else
      std::erase(values, bestValue);
    if (values.empty())
      continue;
    open.emplace(child->bound, nodes.size());
    nodes.push_back(std::move(child));
  }
}

/// False if the search ended in the middle of the node.
bool SumSearch::expand(Node node) {
  bool isRoot = result.numNodes++ == 0;
  for (bool isDone = false; !isDone;) {
    std::unique_ptr<SumModel> before = std::move(model);
    model = std::make_unique<SumModel>(facts, table, limits.maxEntries,
                                       node.values);
    if (!model->isComplete())
      return false;
    if (node.values.empty())
      for (const SumVariable &variable : model->variables)
        node.values.push_back(variable.values);
    hopeless = kInfinity;
    tree = std::make_unique<SumTree>(*model);
    if (tree->getSize() > kMaxTree)
      tree.reset();
    std::unique_ptr<SumDual> messages = std::move(dual);
    if (!tree && messages && before) {
      dual = std::make_unique<SumDual>(*model, getMean(node));
      dual->adopt(*messages);
    }
    messages.reset();
    std::vector<std::vector<unsigned>> values = node.values;
    if (!raise(node, isRoot) || isGood(node.bound))
      return !isStopped;
    isDone = node.values == values;
    if (!isDone) {
      size_t old = 0, left = 0;
      for (unsigned i = 0; i < values.size(); ++i) {
        old += values[i].size();
        left += node.values[i].size();
      }
      isDone = left * 10 >= old * 9;
    }
  }
  if (!isGood(node.bound))
    branch(node);
  return true;
}

SumResult SumSearch::run(const std::vector<std::vector<unsigned>> &starts) {
  auto root = std::make_unique<Node>();
  root->thresholds = {static_cast<unsigned>(facts.problem.operators.size())};
  root->weights = {1};
  model = std::make_unique<SumModel>(facts, table, limits.maxEntries);
  if (!model->isComplete())
    return result;
  for (const std::vector<unsigned> &signatures : starts)
    if (auto given = model->getChoice(signatures)) {
      result.seconds = std::min(
          result.seconds,
          model->getCost(model->getPrices(model->getWorst(*given)), *given));
      if (unsigned t = model->getWorst(*given); t != root->thresholds.front()) {
        root->thresholds = {root->thresholds.front(), t};
        root->weights = {0.5, 0.5};
      }
    }
  model.reset();
  open.emplace(0, 0);
  nodes.push_back(std::move(root));
  while (!open.empty()) {
    auto [bound, index] = *open.begin();
    result.bound = std::min(std::max(result.bound, bound), getGoal());
    if (isGood(bound) || !proceeds())
      return result;
    open.erase(open.begin());
    Node node = std::move(*nodes[index]);
    nodes[index].reset();
    if (!expand(std::move(node)))
      return result;
  }
  result.bound = getGoal();
  return result;
}

SumResult
tandem::search::searchSums(const Facts &facts, ChangeTable &table,
                           const std::vector<std::vector<unsigned>> &starts,
                           const SumLimits &limits) {
  return SumSearch(facts, table, limits).run(starts);
}
