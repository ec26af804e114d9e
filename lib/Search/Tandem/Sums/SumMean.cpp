//===- SumMean.cpp - the best mean of sums --------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Sums/SumMean.h"
#include "Tandem/Limits.h"
#include <algorithm>
#include <limits>
#include <set>

using namespace tandem::search;

size_t SumNode::countValues() const {
  size_t count = 0;
  for (const std::vector<unsigned> &own : values)
    count += own.size();
  return count;
}

bool SumNode::allows(const SumChoice &made) const {
  for (size_t i = 0; i < values.size(); ++i)
    if (!std::binary_search(values[i].begin(), values[i].end(),
                            made.signatures[i]))
      return false;
  return true;
}

MeanSearch::MeanSearch(const SumModel &all, SumNode &node, double goal,
                       Proceeds proceeds, Receives receives)
    : all(all), node(node), goal(goal), proceeds(std::move(proceeds)),
      receives(std::move(receives)) {
  setUp();
}

/// What the values that are left need.
void MeanSearch::setUp() {
  if (dual)
    node.messages = getMessages();
  dual.reset();
  part = std::make_unique<SumModel>(all, node.values, node.takes);
  numValues = node.countValues();
  dual = std::make_unique<SumDual>(*part, part->getMean(node.mean));
  if (node.messages)
    dual->setMessages(*node.messages);
}

//===----------------------------------------------------------------------===//
// One mean
//===----------------------------------------------------------------------===//

/// A bound, a choice and a bound per value. False if there is no leave.
bool MeanSearch::solve(const SumMean &mean, bool isRoot) {
  offset = part->getOffset(mean) - kRounding * part->forbidden;
  dual->setPrices(part->getMean(mean));
  bound = -kInfinity;
  unsigned numSweeps = isRoot ? kRootMeanSweeps : kMeanSweeps;
  for (unsigned i = 0; i < numSweeps; i += kSweepsAtOnce) {
    for (unsigned j = 0; j < kSweepsAtOnce; ++j)
      dual->sweep();
    if (!proceeds(kSweepsAtOnce * dual->getWork()))
      return false;
    double before = bound;
    bound = dual->getBound() + offset;
    double missing = isRoot ? 0 : kLeastShare * (goal - bound);
    if (isGood(bound) || bound - before < std::max(kLeastGain * bound, missing))
      break;
  }
  choice = dual->round();
  least = dual->getLeast();
  return true;
}

void MeanSearch::dropValues() {
  double limit = goal - offset;
  for (unsigned i = 0; i < least.size(); ++i) {
    const std::vector<unsigned> &own = part->variables[i].values;
    for (unsigned j = 0; j < own.size(); ++j)
      if (least[i][j] >= limit)
        std::erase(node.values[i], own[j]);
    if (node.values[i].empty())
      node.bound = kInfinity;
  }
}

double MeanSearch::getLeast(unsigned variable, unsigned value) const {
  const std::vector<unsigned> &own = part->variables[variable].values;
  return least[variable]
              [std::lower_bound(own.begin(), own.end(), value) - own.begin()] +
         offset;
}

std::vector<double> MeanSearch::getExcess() const {
  return dual->getExcess(choice);
}

std::shared_ptr<const std::vector<double>> MeanSearch::getMessages() const {
  return std::make_shared<const std::vector<double>>(dual->getMessages());
}

//===----------------------------------------------------------------------===//
// The game
//===----------------------------------------------------------------------===//

/// False if the node has the choice already.
bool MeanSearch::addChoice() {
  auto made = std::make_shared<SumChoice>(part->evaluate(choice));
  goal = receives(*part, choice, *made);
  for (const auto &other : node.choices)
    if (other->signatures == made->signatures)
      return false;
  node.choices.push_back(std::move(made));
  return true;
}

/// Those whose values are left; if there are any.
std::vector<size_t> MeanSearch::listPlayers() const {
  std::vector<size_t> players;
  for (size_t i = 0; i < node.choices.size(); ++i)
    if (node.allows(*node.choices[i]))
      players.push_back(i);
  for (size_t i = 0; players.empty() && i < node.choices.size(); ++i)
    players.push_back(i);
  return players;
}

void MeanSearch::playGame() {
  std::set<unsigned> matters(node.mean.thresholds.begin(),
                             node.mean.thresholds.end());
  std::vector<std::vector<double>> sums, rows;
  std::vector<size_t> players = listPlayers();
  for (size_t player : players) {
    unsigned worst;
    sums.push_back(part->getSums(*node.choices[player], worst));
    matters.insert(worst);
  }
  game.thresholds.assign(matters.begin(), matters.end());
  for (const std::vector<double> &own : sums) {
    rows.emplace_back();
    for (unsigned t : game.thresholds)
      rows.back().push_back(own[t]);
  }
  std::vector<double> shares;
  game.weights = solveGame(rows, shares);
  mixture.assign(node.choices.size(), 0);
  for (size_t i = 0; i < players.size(); ++i)
    mixture[players[i]] = shares[i];
  value = kInfinity;
  for (const std::vector<double> &row : rows) {
    double sum = 0;
    for (size_t i = 0; i < row.size(); ++i)
      sum += game.weights[i] * row[i];
    value = std::min(value, sum);
  }
}

/// What is left of a choice's waiting collectives decides which rooms matter.
std::pair<unsigned, double> MeanSearch::getWorstRoom() const {
  std::pair<unsigned, double> worst(0, 0);
  for (unsigned room = 0; room < part->rooms.size(); ++room) {
    if (part->rooms[room].takes != Takes::Open)
      continue;
    double excess = 0;
    for (size_t i = 0; i < mixture.size(); ++i)
      if (mixture[i] > 0 && part->looksAt(node.choices[i]->worst, room))
        excess += mixture[i] * part->getExcess(*node.choices[i], room);
    if (excess > worst.second)
      worst = {room, excess};
  }
  return worst;
}

SumMean MeanSearch::getNext(double center) const {
  SumMean mean = game;
  for (double &weight : mean.weights)
    weight *= 1 - center;
  for (size_t i = 0; i < node.mean.thresholds.size(); ++i) {
    auto place =
        std::lower_bound(mean.thresholds.begin(), mean.thresholds.end(),
                         node.mean.thresholds[i]);
    mean.weights[place - mean.thresholds.begin()] +=
        center * node.mean.weights[i];
  }
  return mean;
}

bool MeanSearch::run(bool isRoot) {
  SumMean mean = node.mean;
  std::vector<double> bounds;
  unsigned numOld = 0;
  for (unsigned i = 0; i < (!all.facts.does(Mechanism::Means) ? 1
                            : isRoot                          ? kRootMeans
                                                              : kMeans);
       ++i) {
    if (node.countValues() < kShrunkNode * numValues)
      setUp();
    if (i == 0 && !proceeds(kNodeFactorWork * all.factors.size()))
      return false;
    if (!solve(mean, isRoot))
      return false;
    bool isNew = addChoice();
    numOld = isNew ? 0 : numOld + 1;
    if (bound > node.bound || i == 0) {
      node.bound = std::max(node.bound, bound);
      node.mean = std::move(mean);
      dropValues();
    }
    if (isGood(node.bound))
      return true;
    playGame();
    bounds.push_back(node.bound);
    double gained =
        bounds.back() - bounds[i < kMeanPatience ? 0 : i - kMeanPatience];
    bool isSlow = i >= 2 * kMeanPatience && gained < kLeastGain * node.bound;
    bool promises = isRoot ? isNew || value - bound > kMeanPromise * bound
                           : isNew || value - bound > kLeastGain * bound;
    // Another mean cannot reach the goal; a branch may.
    if (isSlow || !promises || numOld > kMaxKnown ||
        (!isRoot && !isGood(value)))
      return true;
    mean = getNext(numOld ? 0 : kMeanCenter);
  }
  return true;
}
