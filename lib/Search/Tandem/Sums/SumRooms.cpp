//===- SumRooms.cpp - waiting collectives and their rooms -----------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Sums/Sum.h"
#include <algorithm>

using namespace tandem::cost;
using namespace tandem::search;

//===----------------------------------------------------------------------===//
// Lines
//===----------------------------------------------------------------------===//

/// What is hidden beside so much computation.
double SumModel::getRoom(double computed) const {
  double piece = facts.problem.pieceLatency * (1 - beta);
  return std::max(0.0, computed * (1 - gamma) - piece);
}

/// The room is convex: its chord between the least and the most computation
/// lies above it.
void SumModel::setLine(SumRoom &room) const {
  if (facts.problem.pieceLatency == 0)
    return;
  if (room.takes != Takes::Open) {
    bool takes = room.takes == Takes::Yes;
    room.share = takes ? 1 : 0;
    room.offset = takes ? facts.problem.pieceLatency * (1 - beta) : 0;
    return;
  }
  double least = getRoom(room.least), width = room.most - room.least;
  room.share = 0;
  if (width > 0 && gamma < 1)
    room.share = (getRoom(room.most) - least) / width / (1 - gamma);
  room.offset = (1 - gamma) * room.share * room.least - least;
}

void SumModel::addRooms() {
  for (SumRoom &room : rooms)
    room.least = room.most = 0;
  for (const SumVariable &variable : variables)
    for (unsigned op : variable.operators) {
      if (facts.isArgument(op) || !givesRoom(op))
        continue;
      const SignatureSet &signatures = facts.problem.getSignatures(op);
      auto isLess = [&](unsigned a, unsigned b) {
        return signatures[a].seconds < signatures[b].seconds;
      };
      auto [least, most] = std::minmax_element(variable.values.begin(),
                                               variable.values.end(), isLess);
      rooms[stageOf[op]].least += signatures[*least].seconds;
      rooms[stageOf[op]].most += signatures[*most].seconds;
    }
  // Of all that is behind, if stages are not given.
  double least = 0, most = 0;
  for (unsigned stage = numStages; stageEnds.empty() && stage-- > 0;) {
    SumRoom &room = rooms[stage];
    std::swap(least, room.least);
    std::swap(most, room.most);
    least += room.least;
    most += room.most;
  }
  for (SumRoom &room : rooms)
    setLine(room);
}

//===----------------------------------------------------------------------===//
// Prices
//===----------------------------------------------------------------------===//

SumPrices SumModel::getPrices(unsigned t) const {
  SumPrices prices;
  for (unsigned op = 0; op < stageOf.size(); ++op) {
    bool isBehind = stageOf[op] > t && givesRoom(op);
    const SumRoom &room =
        rooms[stageEnds.empty() && isBehind ? t : stageOf[op]];
    prices.computation.push_back(isAgain(op) ? gamma
                                 : isBehind  ? 1 - (1 - gamma) * room.share
                                             : 1);
    prices.waiting.push_back(stageOf[op] >= t ? 1 : beta);
  }
  return prices;
}

SumPrices SumModel::getMean(const SumMean &mean) const {
  SumPrices sum;
  sum.computation.assign(stageOf.size(), 0);
  sum.waiting.assign(stageOf.size(), 0);
  for (size_t i = 0; i < mean.thresholds.size(); ++i) {
    if (mean.weights[i] == 0)
      continue;
    SumPrices prices = getPrices(mean.thresholds[i]);
    for (unsigned op = 0; op < stageOf.size(); ++op) {
      sum.computation[op] += mean.weights[i] * prices.computation[op];
      sum.waiting[op] += mean.weights[i] * prices.waiting[op];
    }
  }
  return sum;
}

double SumModel::getOffset(const SumMean &mean) const {
  double sum = 0;
  for (size_t i = 0; i < mean.thresholds.size(); ++i) {
    unsigned t = mean.thresholds[i];
    double offset = 0;
    if (!stageEnds.empty())
      for (unsigned stage = t + 1; stage < numStages; ++stage)
        offset += rooms[stage].offset;
    else if (t < numStages)
      offset = rooms[t].offset;
    sum += mean.weights[i] * offset;
  }
  return sum;
}

//===----------------------------------------------------------------------===//
// Choices
//===----------------------------------------------------------------------===//

SumChoice SumModel::evaluate(const std::vector<unsigned> &choice) const {
  SumChoice made;
  made.waiting.resize(numStages);
  made.computed.resize(numStages);
  for (unsigned i = 0; i < factors.size(); ++i) {
    auto [now, waits] = getFactorSeconds(i, choice);
    made.waiting[stageOf[facts.tensors[factors[i].tensor].producer]] += waits;
    made.base += now + beta * waits;
  }
  for (unsigned i = 0; i < variables.size(); ++i) {
    unsigned signature = variables[i].values[choice[i]];
    made.signatures.push_back(signature);
    for (unsigned op : variables[i].operators) {
      if (facts.isArgument(op))
        continue;
      double seconds = facts.problem.getSignatures(op)[signature].seconds;
      made.base += isAgain(op) ? gamma * seconds : seconds;
      if (givesRoom(op))
        made.computed[stageOf[op]] += seconds;
    }
  }
  // What waits from each stage on, and what is left of it.
  double waits = 0, room = 0, computed = 0;
  made.seconds = made.base;
  made.worst = numStages;
  for (unsigned stage = numStages; stage-- > 0;) {
    bool sends = made.waiting[stage] > 0;
    made.waiting[stage] = waits += made.waiting[stage];
    double own = made.computed[stage];
    if (stageEnds.empty()) {
      made.computed[stage] = computed;
      room = getRoom(computed);
      computed += own;
    }
    double seconds = made.base + (1 - beta) * waits - room;
    if (sends && seconds > made.seconds) {
      made.seconds = seconds;
      made.worst = stage;
    }
    if (!stageEnds.empty())
      room += getRoom(own);
  }
  return made;
}

std::vector<double> SumModel::getSums(const SumChoice &made,
                                      unsigned &worst) const {
  std::vector<double> sums(numStages + 1, made.base);
  double behind = 0, most = 0, later = 0;
  worst = numStages;
  for (unsigned stage = numStages; stage-- > 0;) {
    double line = getLine(rooms[stage], made.computed[stage]);
    double left =
        (1 - beta) * made.waiting[stage] - (stageEnds.empty() ? line : behind);
    sums[stage] += left;
    if (made.waiting[stage] > later && left > most) {
      most = left;
      worst = stage;
    }
    later = made.waiting[stage];
    behind += line;
  }
  return sums;
}

double SumModel::getExcess(const SumChoice &made, unsigned room) const {
  double computed = made.computed[room];
  return getLine(rooms[room], computed) - getRoom(computed);
}
